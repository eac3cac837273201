"""Autocast (mixed precision) that also works in exported graphs and on meta tensors, and contiguous tensors there."""

import contextlib
from typing import Any

import torch
from torch import Tensor

AMP = {None: None, "bf16": torch.bfloat16, "fp16": torch.float16}  # names in configs


def without_autocast(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Disable autocast on the device of the tensor, for exact computation."""
    return autocast(tensor, None)


def autocast(tensor: Tensor, dtype: torch.dtype | None) -> contextlib.AbstractContextManager[Any]:
    """Enable autocast to `dtype` on the device of the tensor; None disables it."""
    kind = tensor.device.type
    unneeded = torch.compiler.is_exporting() and dtype is None and not torch.is_autocast_enabled(kind)
    if unneeded or kind == "meta":  # a graph would record even a context without effect
        return contextlib.nullcontext()
    return torch.autocast(kind, dtype, enabled=dtype is not None)


def contiguous_in_graph(x: Tensor) -> Tensor:
    """Return the input of a convolution unchanged, or as a contiguous copy while a graph is exported.

    A convolution of another memory layout compares its sides with 1, and the graph would refuse batches and maps of
    size 1. `contiguous()` compares them too, so that this is a copy.
    """
    return x.clone(memory_format=torch.contiguous_format) if torch.compiler.is_exporting() else x
