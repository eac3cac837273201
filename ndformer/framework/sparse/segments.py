"""Reductions over segments of consecutive rows, by torch, or by torch-scatter on a GPU if installed.

Values are equal. If several rows share the maximum, torch divides the gradient equally among them, torch-scatter passes
it to one row.
"""

import importlib
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor


def reduce_segments(x: Tensor, lengths: Tensor, how: Literal["sum", "mean", "max"]) -> Tensor:
    """Reduce (N, ...) to (S, ...): row s of the result reduces the next lengths[s] rows of x. No length may be 0.

    Sums and means of 16-bit numbers are computed in float32.
    """
    if how != "max" and x.dtype in (torch.bfloat16, torch.float16):
        return reduce_segments(x.float(), lengths, how).to(x.dtype)
    scatter = torch_scatter() if x.is_cuda else None  # torch is faster on a CPU
    if scatter is not None:
        ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        return scatter.segment_csr(x, ends, reduce=how)
    return torch.segment_reduce(x, how, lengths=lengths, unsafe=True)  # unsafe: the check would synchronize


@cache
def torch_scatter() -> Any:
    """Return the package torch_scatter, or None."""
    try:
        return importlib.import_module("torch_scatter")
    except ImportError:
        return None


def run_lengths(sorted_keys: Tensor, runs: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the run index (N,) of each element of sorted keys, and the lengths (S,) of the runs.

    A GPU synchronizes unless `runs`, the number of runs, is given.
    """
    first = torch.ones_like(sorted_keys, dtype=torch.bool)
    first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    starts = first.nonzero() if runs is None else torch.nonzero_static(first, size=runs)
    end = starts.new_full((1, 1), len(sorted_keys))
    return first.cumsum(0) - 1, torch.cat([starts, end]).squeeze(1).diff()
