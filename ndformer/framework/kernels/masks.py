"""Who sees whom: key j is seen by query i if it is valid and of the same segment."""

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.tokens import Where


def seen_keys(valid: Tensor) -> Tensor:
    """(B, 1, 1, N) the keys to look at. A row of nothing but padding sees itself: its output is dropped, but a softmax
    over nothing would be NaN and spoil gradients."""
    return (valid | ~valid.any(dim=1, keepdim=True))[:, None, None]


def seen(where: Where, lo: int, hi: int) -> Tensor | None:
    """(B, 1, hi - lo or 1, N) True = seen; None where all are."""
    if where.segment is None:
        return None if where.valid is None else seen_keys(where.valid)
    assert where.valid is not None
    runs = where.runs()
    same = (runs[:, lo:hi, None] == runs[:, None, :]) & where.valid[:, None, :]
    n = torch.arange(runs.shape[1], device=runs.device)
    return (same | (n[lo:hi, None] == n))[:, None]  # padding sees itself, for the same reason


def bias_rows(bias: Bias, where: Where, lo: int, hi: int) -> Tensor:
    """rows(lo, hi) with nothing between pairs that have no relative position."""
    rows, placed = bias.rows(lo, hi), placed_for(bias, where)
    if placed is None:
        return rows
    return torch.where((placed[:, lo:hi, None] & placed[:, None, :])[:, None], rows, 0.0)


def placed_for(bias: Bias, where: Where) -> Tensor | None:
    """(B, N) the tokens between which the bias acts; padding too, unless the bias could hide every key from it."""
    if bias.handles_unplaced:
        return where.valid if bias.excludes else None
    return where.real if bias.excludes else where.placed
