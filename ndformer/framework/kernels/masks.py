"""Attention masks: query i attends to key j if the key is valid and in the same segment."""

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.tokens import Where


def padding_mask(valid: Tensor) -> Tensor:
    """Return the mask (B, 1, 1, N) of valid keys; a row of padding only keeps all keys.

    The output of such a row is dropped, but a softmax without keys would be NaN, also in gradients.
    """
    return (valid | ~valid.any(dim=1, keepdim=True))[:, None, None]


def attention_mask(where: Where, lo: int, hi: int) -> Tensor | None:
    """Return the mask (B, 1, hi - lo or 1, N) for queries lo..hi-1, True = visible; None if all keys are."""
    if where.segment is None:
        return None if where.valid is None else padding_mask(where.valid)
    assert where.valid is not None
    runs = where.runs()
    same = (runs[:, lo:hi, None] == runs[:, None, :]) & where.valid[:, None, :]
    n = torch.arange(runs.shape[1], device=runs.device)
    return (same | (n[lo:hi, None] == n))[:, None]  # padding attends to itself, for the same reason


def bias_rows(bias: Bias, where: Where, lo: int, hi: int) -> Tensor:
    """Return bias.rows(lo, hi), 0 for pairs without a relative position."""
    rows, placed = bias.rows(lo, hi), placed_for(bias, where)
    if placed is None:
        return rows
    return torch.where((placed[:, lo:hi, None] & placed[:, None, :])[:, None], rows, 0.0)


def placed_for(bias: Bias, where: Where) -> Tensor | None:
    """Return (B, N) the tokens to which the bias applies; padding included, unless the bias could mask all its keys."""
    if bias.handles_unplaced:
        return where.valid if bias.excludes else None
    return where.real if bias.excludes else where.placed
