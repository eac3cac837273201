"""FlexAttention: flash attention with any pointwise bias, on GPU. On CPU it is forward only and serves as a check."""

import copy
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from ndformer.framework.bias.base import Bias
from ndformer.framework.kernels.backend import Backend
from ndformer.framework.kernels.masks import placed_for, seen_keys
from ndformer.framework.tokens import Where


class Flex(Backend):
    """Serves biases that have `pair`: with gradients on a GPU, without on a CPU. Takes packed rows whole."""

    name, packed = "flex", True

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        return (bias is None or bias.pointwise) and not _learning_on_cpu(q, k, v)

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        exact = q.dtype == torch.float64
        return q.device.type == "cuda" and not exact and (bias is not None or where.segment is not None)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if bias is not None and not bias.pointwise:
            raise TypeError(
                "this bias exists only as whole rows, so backend 'flex' cannot use it: take 'dense' or 'sdpa'"
            )
        if _learning_on_cpu(q, k, v):
            raise RuntimeError(
                "backend 'flex' computes no gradients on CPU: take 'sdpa' or 'dense', or torch.no_grad()"
            )
        B, width = q.shape[0], v.shape[-1]
        q, k, v = (F.pad(t, (0, max(0, 16 - t.shape[-1]))) for t in (q, k, v))  # the GPU kernel's least width
        call = compiled() if q.device.type == "cuda" and not torch.compiler.is_compiling() else flex_attention
        out = call(q, k, v, score_mod=score_mod(where, bias, B), scale=scale)
        return out[..., :width]


def _learning_on_cpu(q: Tensor, k: Tensor, v: Tensor) -> bool:
    return q.device.type == "cpu" and torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))


def score_mod(where: Where, bias: Bias | None, batch: int) -> Any:
    """The bias and the mask of pairs, as FlexAttention takes them; None where there is neither."""
    if bias is None and where.valid is None:
        return None
    placed = None if bias is None else placed_for(bias, where)
    placed = None if placed is None else buffer(placed.expand(batch, -1))
    bias = None if bias is None else with_buffers(bias)
    keys = runs = None
    if where.segment is not None and where.valid is not None:
        runs = buffer(where.runs().masked_fill(~where.valid, -1).expand(batch, -1))
    elif where.valid is not None:
        keys = buffer(seen_keys(where.valid)[:, 0, 0].expand(batch, -1))

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


def buffer(t: Tensor) -> Tensor:
    """A contiguous tensor that exists: compiling for CPU, torch 2.13 loses captures that the graph itself computes."""
    t = t.contiguous()
    return t.as_strided(t.shape, t.stride()) if torch.compiler.is_compiling() and t.device.type == "cpu" else t


def with_buffers(bias: Bias) -> Bias:
    """The same bias, its tensors (also those in lists, and of the biases in lists) made buffers."""

    def fixed(value: Any) -> Any:
        if isinstance(value, Tensor):
            return buffer(value)
        if isinstance(value, Bias):
            return with_buffers(value)
        return [fixed(v) for v in value] if isinstance(value, list) else value

    bias = copy.copy(bias)
    for name, value in vars(bias).items():
        setattr(bias, name, fixed(value))
    return bias


@cache
def compiled() -> Any:
    return torch.compile(flex_attention)
