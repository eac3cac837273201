"""Tensors inside a graph that torch.export makes."""

import torch
from torch import Tensor


def contiguous_in_graph(x: Tensor) -> Tensor:
    """Return the input of a convolution unchanged, or as a contiguous copy while a graph is exported.

    A convolution of another memory layout compares its sides with 1, and the graph would refuse batches and maps of
    size 1. `contiguous()` compares them too, so that this is a copy.
    """
    return x.clone(memory_format=torch.contiguous_format) if torch.compiler.is_exporting() else x
