"""Projections of tokens that a bias is made of (mixed precision): multiplied in 16 bit where q and k are, and float32.

A product in float32 of the tokens with 600 rows of weights takes a GPU as long as all linear layers of a block in 16
bit. The numbers that are multiplied are those that q and k are made of, rounded once; sums and results are float32.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def project(x: Tensor, weight: Tensor, like: Tensor) -> Tensor:
    """(B, N, D) and (H, m, D) -> (H, m, B, N), in x's precision: tokens last, so that each head's are a matrix. `like`:
    the layer's q, whose type says whether it computes in 16 bit."""
    rows, tokens = weight.flatten(0, 1), x.flatten(0, 1)
    if half(like):
        values = Mixed.apply(rows, tokens, like.dtype)
    else:
        values = F.linear(tokens, rows.to(x.dtype)).T  # faster on CPU than a product with x transposed
        if torch.is_grad_enabled():
            values = values.contiguous()  # gradients come tokens last: where values lay otherwise, CPUs would be slow
    return values.unflatten(0, weight.shape[:2]).unflatten(-1, x.shape[:2])


def linear(x: Tensor, weight: Tensor, like: Tensor) -> Tensor:
    """(B, N, D) and (M, D) -> (B, N, M), the same with tokens first."""
    if not half(like):
        return F.linear(x, weight.to(x.dtype))
    return Mixed.apply(weight, x.flatten(0, 1), like.dtype).T.unflatten(0, x.shape[:2])


def half(like: Tensor) -> bool:
    return like.dtype in (torch.bfloat16, torch.float16)


class Mixed(torch.autograd.Function):
    """(M, D) and (T, D) -> (M, T) float32, of both rounded to 16 bit; so are gradients on their way in, after they are
    brought to a size that float16 has."""

    @staticmethod
    def forward(weight: Tensor, x: Tensor, dtype: torch.dtype) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _product(weight.to(dtype), x.to(dtype).T)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, torch.dtype], output: Tensor) -> None:
        weight, x, ctx.dtype = inputs
        ctx.types = weight.dtype, x.dtype
        ctx.save_for_backward(weight, x.to(ctx.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        weight, x = ctx.saved_tensors
        largest = gradient.abs().amax()
        size = torch.where(largest > 0, largest, 1.0)  # NaN and infinity stay what they are
        small = (gradient / size).to(ctx.dtype)
        of_weight, of_x = _product(small, x) * size, _product(small.T, weight.to(ctx.dtype)) * size
        return of_weight.to(ctx.types[0]), of_x.to(ctx.types[1]), None


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Of 16 bits, in float32: a product of two has at most 22 digits, which float32 has."""
    if a.device.type == "cuda":
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()
