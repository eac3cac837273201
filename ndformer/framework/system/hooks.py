"""Forward hooks that run only for calls of the thread or asyncio task that registered them."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import nn

_registering = threading.Lock()  # torch numbers its hooks without a lock, so two threads could get one number
_active: ContextVar[frozenset[object]] = ContextVar("_active", default=frozenset())


@contextmanager
def forward_hooks(
    before: Mapping[nn.Module, Callable[..., None]], after: Mapping[nn.Module, Callable[..., None]] | None = None
) -> Iterator[None]:
    """Run hooks at forward calls of modules: `before[module](module, args, kwargs)`, and `after` also with the output.

    Calls from other threads or asyncio tasks are ignored.
    """
    key = object()

    def in_context(hook: Callable[..., None]) -> Callable[..., None]:
        # a hook that another thread removes at this moment may be called without kwargs: torch looks them up by its id
        def call(*args: Any) -> None:
            if key in _active.get():
                hook(*args)

        return call

    with _registering:
        handles = [m.register_forward_pre_hook(in_context(hook), with_kwargs=True) for m, hook in before.items()]
        handles += [m.register_forward_hook(in_context(hook), with_kwargs=True) for m, hook in (after or {}).items()]
    _active.set(_active.get() | {key})
    try:
        yield
    finally:
        _active.set(_active.get() - {key})
        with _registering:
            for handle in handles:
                handle.remove()
