"""Autocast (mixed precision), off for what must be exact and on as a model says; meta tensors know none."""

import contextlib
from typing import Any

import torch
from torch import Tensor

AMP = {None: None, "bf16": torch.bfloat16, "fp16": torch.float16}  # as configs name them


def without_autocast(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    return autocast(tensor, None)


def autocast(tensor: Tensor, dtype: torch.dtype | None) -> contextlib.AbstractContextManager[Any]:
    """In that precision on the tensor's device; None: off."""
    kind = tensor.device.type
    idle = torch.compiler.is_exporting() and dtype is None and not torch.is_autocast_enabled(kind)
    if idle or kind == "meta":  # in a graph, even one that does nothing is a node
        return contextlib.nullcontext()
    return torch.autocast(kind, dtype, enabled=dtype is not None)
