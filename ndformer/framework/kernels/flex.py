"""FlexAttention: any pointwise bias inside a fused kernel on GPU. On CPU it is forward only and serves as a check."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from ndformer.framework.bias import Bias
from ndformer.framework.kernels.masks import placed_for, seen_keys
from ndformer.framework.tokens import Where


def flex(q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
    if q.device.type == "cpu" and torch.is_grad_enabled() and q.requires_grad:
        raise RuntimeError("backend 'flex' computes no gradients on CPU: take 'sdpa' or 'dense', or torch.no_grad()")
    B, H, _, width = q.shape
    if width < 16:  # the GPU kernel's least width
        q, k, v = (F.pad(t, (0, 16 - width)) for t in (q, k, v))
    call = compiled() if q.device.type == "cuda" and not torch.compiler.is_compiling() else flex_attention
    out = call(q, k, v, score_mod=score_mod(where, bias, B), scale=scale)
    return out[..., : v.shape[-1]][..., :width]


def score_mod(where: Where, bias: Bias | None, batch: int) -> Any:
    """The bias and the mask of pairs, as FlexAttention takes them; None where there is neither."""
    if bias is None and where.valid is None:
        return None
    placed = None if bias is None else placed_for(bias, where)
    placed = None if placed is None else placed.expand(batch, -1).contiguous()
    keys = runs = None
    if where.segment is not None and where.valid is not None:
        runs = where.runs().masked_fill(~where.valid, -1).expand(batch, -1).contiguous()
    elif where.valid is not None:
        keys = seen_keys(where.valid)[:, 0, 0].expand(batch, -1).contiguous()

    def modify(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if bias is not None:
            value = bias.pair(b, h, i, j)
            if placed is not None:
                value = torch.where(placed[b, i] & placed[b, j], value, 0.0)
            score = score + value
        if keys is not None:
            score = torch.where(keys[b, j], score, -torch.inf)
        if runs is not None:
            score = torch.where(((runs[b, i] == runs[b, j]) & (runs[b, j] >= 0)) | (i == j), score, -torch.inf)
        return score

    return modify


@cache
def compiled() -> Any:
    return torch.compile(flex_attention)
