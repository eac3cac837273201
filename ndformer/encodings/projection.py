"""Linear projections of tokens to the coefficients of a bias, in mixed precision: 16-bit factors, float32 results.

A float32 product of the tokens with 600 rows of weights takes a GPU as long as all 16-bit linear layers of a block. So
where q and k are in 16 bit, the factors are rounded once to that type; sums and results are float32.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def project(x: Tensor, weight: Tensor, like: Tensor) -> Tensor:
    """Return the projection (H, m, B, N) of tokens x (B, N, D) by weight (H, m, D), in the precision of x.

    Tokens are the last axis, so that each head has one matrix. `like` is q of the layer, whose dtype decides whether
    the factors are rounded to 16 bit.
    """
    rows, tokens = weight.flatten(0, 1), x.flatten(0, 1)
    if is_half(like):
        values = HalfPrecisionMatmul.apply(rows, tokens, like.dtype)
    else:
        values = F.linear(tokens, rows.to(x.dtype)).T  # faster on CPU than a product with x transposed
        if torch.is_grad_enabled():
            values = values.contiguous()  # gradients have this layout; with another one CPUs are slow
    return values.unflatten(0, weight.shape[:2]).unflatten(-1, x.shape[:2])


def linear(x: Tensor, weight: Tensor, like: Tensor) -> Tensor:
    """Return the projection (B, N, M) of x (B, N, D) by weight (M, D): as project(), with tokens first."""
    if not is_half(like):
        return F.linear(x, weight.to(x.dtype))
    return HalfPrecisionMatmul.apply(weight, x.flatten(0, 1), like.dtype).T.unflatten(0, x.shape[:2])


def is_half(like: Tensor) -> bool:
    return like.dtype in (torch.bfloat16, torch.float16)


class HalfPrecisionMatmul(torch.autograd.Function):
    """The product (M, T) in float32 of weight (M, D) and x (T, D), both rounded to 16 bit.

    Incoming gradients are rounded too, after they are divided by their largest value, so that float16 can hold them.
    """

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
        largest = gradient.abs().amax() if gradient.numel() else gradient.new_ones(())
        scale = torch.where(largest > 0, largest, 1.0)  # NaN and infinity remain
        scaled = (gradient / scale).to(ctx.dtype)
        grad_weight, grad_x = _product(scaled, x) * scale, _product(scaled.T, weight.to(ctx.dtype)) * scale
        return grad_weight.to(ctx.types[0]), grad_x.to(ctx.types[1]), None


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b in float32, exact but for the sums: products of two 16-bit numbers have at most 22 binary digits."""
    if a.device.type == "cuda":
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()
