"""The device that a process computes on: the one asked for, or else a GPU where there is one, or else the CPU."""

import os
import re
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

from ndformer.framework.errors import DataError

VARIABLE = "NDFORMER_DEVICE"  # the one asked for, by this process and all that it starts


def tensor_like(values: Any, like: Tensor) -> Tensor:
    """Numbers of the host beside those of a tensor, of its type if they are floats, without a wait for the device."""
    own = torch.as_tensor(values)
    if own.is_floating_point():
        own = torch.as_tensor(values, dtype=like.dtype)
    return own.to(like.device, non_blocking=True)


class Constant:
    """Numbers of the host that each device is sent once: what a CUDA graph holds may send none. constant(like) is
    `sent(values, like)`, and not to be changed in place."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.tensors: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def __call__(self, like: Tensor) -> Tensor:
        key = like.device, like.dtype
        if key in self.tensors and not torch.compiler.is_compiling():
            return self.tensors[key]
        with torch.inference_mode(False):  # or training could not save it
            made = tensor_like(self.values, like)
        if not (torch.compiler.is_compiling() or isinstance(made, FakeTensor)):
            self.tensors[key] = made
        return made

    def __getstate__(self) -> dict[str, Any]:
        return dict(values=self.values, tensors={})  # a copy of the model may be for elsewhere


def select() -> torch.device:
    return parse(os.environ.get(VARIABLE) or ("cuda" if torch.cuda.is_available() else "cpu"))


def parse(text: str) -> torch.device:
    """cpu, cuda, cuda:1 or mps, as far as this machine has it."""
    if re.fullmatch(r"cpu|mps|cuda(:\d{1,3})?", text, re.ASCII) is None:
        raise DataError(f"a device is cpu, cuda, cuda:1 or mps, got '{text:.40}'")
    device = torch.device(text)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DataError("there is no mps here, which Macs have: take cpu, or cuda on a machine with a GPU")
    count = torch.cuda.device_count()
    if device.type == "cuda" and not count:
        why = "this torch is built without it" if torch.version.cuda is None else "torch sees no GPU"
        raise DataError(f"there is no {text} here, {why}: take cpu")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise DataError(f"there is no {text} here, the GPUs are cuda:0 to cuda:{count - 1}: take one of them")
    return device


def describe() -> str:
    """In words: cpu with 4 threads, or the name of the GPU."""
    device = select()
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu with {torch.get_num_threads()} threads" if device.type == "cpu" else str(device)


def claim() -> torch.device:
    """The same; where it is one of several GPUs, what is made on "cuda" is made there too."""
    device = select()
    if device.index is not None:
        torch.cuda.set_device(device)
    return device
