"""The hooks of a run: their order, and their states in its checkpoints."""

import io
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.registry import HOOKS
from ndformer.framework.system import archive, processes

PRIORITIES = dict(HIGHEST=0, VERY_HIGH=10, HIGH=30, ABOVE_NORMAL=40, NORMAL=50, BELOW_NORMAL=60, LOW=70, VERY_LOW=90)
PRIORITIES |= dict(LOWEST=100)
DICTS, LISTS = (dict, OrderedDict), (list, tuple)


class Hooks(list[Any]):
    """The hooks of a run, in order of their priorities; hooks with equal priority keep the order of the config."""

    def __init__(self, settings: Sequence[dict[str, Any]] | None) -> None:
        """With hooks of a config, mmengine's RuntimeInfoHook writes losses, rates and metrics to the message hub."""
        for options in [dict(type="RuntimeInfoHook"), *settings] if settings else []:
            hook = HOOKS.create({key: value for key, value in options.items() if key != "priority"})
            if "priority" in options:
                hook.priority = options["priority"]
            self.append(hook)
        self.sort(key=_priority)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the hooks that have `state_dict()`, by class name and number."""
        states = {name: (hook, hook.state_dict()) for name, hook in self._named() if hasattr(hook, "state_dict")}
        for hook, state in states.values():
            _check_readable(type(hook).__name__, state)
        return {name: state for name, (_, state) in states.items()}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        for name, hook in self._named():
            if name in states and hasattr(hook, "load_state_dict"):
                hook.load_state_dict(states[name])

    def _named(self) -> list[tuple[str, Any]]:
        return [(f"{type(hook).__name__}.{i}", hook) for i, hook in enumerate(self)]


def _priority(hook: Any) -> int:
    value = getattr(hook, "priority", "NORMAL")
    value = PRIORITIES.get(value.upper()) if isinstance(value, str) else int(value)
    if value is None or not 0 <= value <= 100:
        choices = ", ".join(PRIORITIES)
        raise DataError(
            f"custom_hooks: expected a priority of 0 to 100 or one of {choices}, got {hook.priority!r} for "
            f"{type(hook).__name__}"
        )
    return value


def _check_readable(name: str, state: Any) -> None:
    """Raise unless the state of a hook can be read again: checkpoints are read without executing code."""
    if _is_readable(state):
        return
    place, value = _unreadable(state)
    kind = type(value)
    kind_name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise DataError(
        f"custom_hooks: expected dense tensors and plain values (strings, numbers of up to 64 bits, lists, dicts) from "
        f"the state_dict() of {name}, got {kind_name} at state_dict(){place}. Convert it, for example to a string"
    )


def _is_readable(value: Any) -> bool:
    file = io.BytesIO()
    try:
        torch.save(_with_empty_tensors(value), file)
        archive.unsealed(file, file.tell())
    except Exception:  # torch and pickle raise many kinds of errors
        return False
    return True


def _with_empty_tensors(value: Any) -> Any:
    """Return a copy of a state whose tensors have no elements, so that it is small."""
    if type(value) in DICTS:
        return {key: _with_empty_tensors(inner) for key, inner in value.items()}
    if type(value) in LISTS:
        return type(value)(map(_with_empty_tensors, value))
    if not isinstance(value, Tensor):
        return value
    return torch.empty(0) if processes.is_sharded(value) else value.detach().flatten()[:0].clone()


def _unreadable(value: Any, place: str = "") -> tuple[str, Any]:
    """Return the innermost part of a value that cannot be read, after its place, such as ['best'][0]."""
    parts: list[tuple[str, Any]] = []
    if type(value) in DICTS:
        parts = [(f"{place}[{key!r}]", part) for key, inner in value.items() for part in (key, inner)]
    elif type(value) in LISTS:
        parts = [(f"{place}[{i}]", inner) for i, inner in enumerate(value)]
    return next((_unreadable(part, inside) for inside, part in parts if not _is_readable(part)), (place, value))
