"""The device of a process: NDFORMER_DEVICE if set, else a GPU if available, else the CPU."""

import os
import re
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

from ndformer.framework.errors import DataError

VARIABLE = "NDFORMER_DEVICE"  # inherited by child processes


def tensor_like(values: Any, like: Tensor) -> Tensor:
    """Return values as a tensor on the device of `like`, floats in its dtype, without synchronizing."""
    tensor = torch.as_tensor(values)
    if tensor.is_floating_point():
        tensor = torch.as_tensor(values, dtype=like.dtype)
    return tensor.to(like.device, non_blocking=True)


class Constant:
    """Values that are copied to each device once, as CUDA graphs may not copy from the host.

    constant(like) returns `tensor_like(values, like)`, which must not be changed in place.
    """

    def __init__(self, values: Any) -> None:
        self.values = values
        self.tensors: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def __call__(self, like: Tensor) -> Tensor:
        key = like.device, like.dtype
        if key in self.tensors and not torch.compiler.is_compiling():
            return self.tensors[key]
        with torch.inference_mode(False):  # inference tensors cannot be saved for backward
            tensor = tensor_like(self.values, like)
        if not (torch.compiler.is_compiling() or isinstance(tensor, FakeTensor)):
            self.tensors[key] = tensor
        return tensor

    def __getstate__(self) -> dict[str, Any]:
        return dict(values=self.values, tensors={})  # a copy of the model may move to another device


def select() -> torch.device:
    """Return the device of this process."""
    return parse(os.environ.get(VARIABLE) or ("cuda" if torch.cuda.is_available() else "cpu"))


def parse(text: str) -> torch.device:
    """Return the device named cpu, cuda, cuda:1 or mps; raise DataError if the machine lacks it."""
    if re.fullmatch(r"cpu|mps|cuda(:\d{1,3})?", text, re.ASCII) is None:
        raise DataError(f"device must be cpu, cuda, cuda:1 or mps, got '{text:.40}'")
    device = torch.device(text)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DataError("device mps exists only on Macs. Use cpu, or cuda on a machine with a GPU")
    count = torch.cuda.device_count()
    if device.type == "cuda" and not count:
        why = "this torch is built without it" if torch.version.cuda is None else "torch sees no GPU"
        raise DataError(f"device {text} is not available: {why}. Use cpu")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise DataError(f"device must be one of cuda:0 to cuda:{count - 1}, got {text}")
    return device


def describe() -> str:
    """Return the name of the GPU, or "cpu with 4 threads"."""
    device = select()
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu with {torch.get_num_threads()} threads" if device.type == "cpu" else str(device)


def claim() -> torch.device:
    """Return the device of this process and make it the current CUDA device if it has an index."""
    device = select()
    if device.index is not None:
        torch.cuda.set_device(device)
    return device
