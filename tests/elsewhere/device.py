"""A device that is not here (a Python backend on PrivateUse1): it computes on the CPU, and says what a GPU would mind.

device = register()
with watched() as seen:
    step(model.to(device), batch)
seen.waits      {"ndformer/framework/heads/detector.py:70 targets nonzero": 2 ...}    where the host waits for values
seen.uploads    the same for what goes from the host to the device, and is waited for
seen.sent       all that goes there, waited for or not: nothing that a CUDA graph holds may
seen.operations each operation with the shapes that come out, in order: static where two steps have the same
seen.mixes      tensors of the host among those of the device, which a GPU refuses
"""

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

NAME = "elsewhere"
ROOT = Path(__file__).parents[2]
aten = torch.ops.aten
# what has a size that only the values say, or hands values to the host
VALUES = {
    *(aten.nonzero.default, aten._local_scalar_dense.default, aten.masked_select.default, aten.equal.default),
    *(aten._unique2.default, aten.unique_consecutive.default, aten.unique_dim.default, aten.is_nonzero.default),
    *(aten.bincount.default, aten.nonzero_numpy.default, aten._unique.default),
}
MOVES = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default}


@dataclass
class Seen:
    """By line of the project and operation: how often."""

    waits: Counter[str] = field(default_factory=Counter)
    uploads: Counter[str] = field(default_factory=Counter)
    mixes: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    operations: list[str] = field(default_factory=list)


seen: Seen | None = None  # one for all threads: backward runs in others


def register() -> torch.device:
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    _Everywhere().__enter__()
    _FromNumbers().__enter__()
    return torch.device(NAME, 0)


def told(found: Any) -> None:
    """Print it as JSON, and end: threads that ran backward on a device of Python cannot be joined."""
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.flush()
    os._exit(0)


@contextmanager
def watched() -> Iterator[Seen]:
    global seen
    before, seen = seen, Seen()
    try:
        yield seen
    finally:
        seen = before


class _Module(backend_registration._DummyBackendModule):
    """torch.elsewhere, as far as autocast and modules ask for it."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0


class Elsewhere(Tensor):
    """A tensor of that device; `inner` holds its values."""

    inner: Tensor  # pyright: ignore[reportIncompatibleMethodOverride]

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Elsewhere":
        own = torch.Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
            requires_grad=inner.requires_grad,
        )
        own.inner = inner
        return own

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"Elsewhere({self.inner})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: Any) -> "Elsewhere":
        return Elsewhere(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Everywhere(TorchDispatchMode):
    """Sees also what makes tensors from nothing, and those of the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _FromNumbers(TorchFunctionMode):
    """torch.tensor and its like fill a tensor of the host and send it: below the level of the other mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None and torch.device(device).type == NAME:
            return func(*args, **{**kwargs, "device": "cpu"}).to(device)
        if func is Tensor.__getitem__ and isinstance(args[0], Elsewhere):
            given = args[1] if isinstance(args[1], tuple) else (args[1],)  # numbers in a list are sent as a tensor
            sent = (torch.tensor(one).to(args[0].device) if isinstance(one, list) else one for one in given)
            return func(args[0], tuple(sent))
        if func is Tensor.tolist and isinstance(args[0], Elsewhere):
            return args[0].cpu().tolist()
        if func is Tensor.new_tensor and isinstance(args[0], Elsewhere):
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(args[0].device)
        return func(*args, **kwargs)


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves = tree_leaves((args, kwargs))
    there = [leaf for leaf in leaves if isinstance(leaf, Elsewhere)]
    device = kwargs.get("device")
    wanted = None if device is None else torch.device(device).type
    if not there and wanted != NAME:
        return func(*args, **kwargs)
    _note(func, args, kwargs, there, wanted)
    inner_args, inner_kwargs = tree_map_only(Elsewhere, lambda t: t.inner, (args, kwargs))
    if wanted == NAME:
        inner_kwargs = {**inner_kwargs, "device": torch.device("cpu")}
    inner_kwargs.pop("pin_memory", None)
    out = func(*inner_args, **inner_kwargs)
    to_host = wanted == "cpu" or (func in MOVES and not isinstance(args[0], Elsewhere) and wanted is None)
    if to_host and func is not aten.copy_.default:
        same = any(out is t.inner for t in there)
        return out.clone() if same else out
    if func is aten.copy_.default:
        return args[0]
    if seen is not None:
        shapes = [tuple(leaf.shape) for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        seen.operations.append(f"{func} {shapes}")
    wrapped = tree_map_only(Tensor, Elsewhere, out)
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _note(func: Any, args: Any, kwargs: dict[str, Any], there: list[Elsewhere], wanted: str | None) -> None:
    if seen is None:
        return
    name = func._schema.name.removeprefix("aten::")
    here = [
        leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and not isinstance(leaf, Elsewhere)
    ]
    if func in MOVES:
        if func is aten._to_copy.default:
            up, down = wanted == NAME and not there, bool(there) and wanted == "cpu"
        else:
            up, down = bool(here) and isinstance(args[0], Elsewhere), not isinstance(args[0], Elsewhere)
        blocking = kwargs.get("non_blocking") is not True and True not in args[2:]
        if up and here[0].numel():
            seen.sent[f"{_line()} {name}"] += 1
            if blocking:
                seen.uploads[f"{_line()} {name}"] += 1
        if down:
            seen.waits[f"{_line()} {name}"] += 1
        return
    masks = func in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)
    indices = [i for i in args[1] if i is not None] if masks else []
    if func in VALUES or (func is aten.repeat_interleave.Tensor and kwargs.get("output_size") is None):
        seen.waits[f"{_line()} {name}"] += 1
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
        seen.waits[f"{_line()} {name} by a mask"] += 1
    stray = [tensor for tensor in here if tensor.ndim]
    for tensor in stray:
        kind = seen.uploads if any(tensor is index for index in indices) else seen.mixes  # a GPU uploads indices
        kind[f"{_line()} {name}"] += 1


def _line() -> str:
    """The innermost line of the project that asks for it; of backward, what made the operation is not known."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        ours = path.is_relative_to(ROOT / "ndformer") or path.name == "planted.py"
        if ours and not frame.f_code.co_name.startswith("<"):  # a list's own frame, which newer Pythons have not
            return f"{path.relative_to(ROOT)}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return "backward" if threading.current_thread() is not threading.main_thread() else "torch"
