"""Reductions over runs of consecutive rows: torch's own, or torch-scatter's on a GPU where it is installed.

The values are the same. Where several rows of a run share the maximum, torch gives each of them an equal share of the
gradient, and torch-scatter gives all of it to one of them.
"""

import importlib
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor


def reduce_segments(x: Tensor, lengths: Tensor, how: Literal["sum", "mean", "max"]) -> Tensor:
    """(N, ...) -> (S, ...): row s of the result is of the next lengths[s] rows of x. No length is 0."""
    scatter = torch_scatter() if x.is_cuda else None  # on CPU torch's own is the faster one
    if scatter is not None:
        ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        return scatter.segment_csr(x, ends, reduce=how)
    return torch.segment_reduce(x, how, lengths=lengths, unsafe=True)  # unsafe: it would wait for the GPU to check


@cache
def torch_scatter() -> Any:
    """The package, None where it is not installed."""
    try:
        return importlib.import_module("torch_scatter")
    except ImportError:
        return None


def run_lengths(sorted_keys: Tensor, runs: int | None = None) -> tuple[Tensor, Tensor]:
    """Of a sorted (N,): the run each element is in (N,), counted from 0, and the runs' lengths (S,). A GPU waits where
    the caller does not know how many there are."""
    first = torch.ones_like(sorted_keys, dtype=torch.bool)
    first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    starts = first.nonzero() if runs is None else torch.nonzero_static(first, size=runs)
    end = starts.new_full((1, 1), len(sorted_keys))
    return first.cumsum(0) - 1, torch.cat([starts, end]).squeeze(1).diff()
