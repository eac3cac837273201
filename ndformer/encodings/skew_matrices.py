"""Skew matrices S, S' = -S, and the rotations that they generate: exp(t S) and the Cayley transform."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def skew(entries: Tensor, width: int) -> Tensor:
    """(..., width (width - 1) / 2) -> (..., width, width): entries below the diagonal, and their negatives above it."""
    row, column = torch.tril_indices(width, width, -1, device=entries.device)
    below = entries.new_zeros(*entries.shape[:-1], width * width).index_copy(-1, row * width + column, entries)
    below = below.unflatten(-1, (width, width))
    return below - below.mT


def cayley(skew: Tensor) -> Tensor:
    """(I - S) (I + S)^-1: a rotation, for every S there is an inverse."""
    one = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve_ex(one + skew, one - skew).result  # the two commute


def blockwise(x: Tensor, turns: Tensor) -> Tensor:
    """The first channels of x (B, H, N, h), block by block, times turns (B or 1, H, N, blocks, b, b)."""
    blocks, b = turns.shape[-3], turns.shape[-1]
    turned, rest = x[..., : blocks * b].to(turns.dtype).unflatten(-1, (blocks, b)), x[..., blocks * b :]
    turned = torch.einsum("bhnkij,bhnkj->bhnki", turns, turned).flatten(-2)
    return torch.cat([turned.to(x.dtype), rest], dim=-1)


class Flow(torch.autograd.Function):
    """exp(t S), (..., b, b) in `dtype`, of skew S (..., b, b), in float64, at times t (...); dimensions of S may be 1:
    one eigenvalue decomposition is for all its times.

    Its derivative, i S = U diag(w) U*, is that of Daleckii and Krein: U ((U* dS U) o F) U*, where F is the divided
    difference of exp(-i w t). Written with a sinc it needs no distance between eigenvalues, which derivatives of
    eigenvectors divide by: they come in pairs w, -w, and all are 0 where S is. Beside it w and U, for backward.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(S: Tensor, t: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        w, U = torch.linalg.eigh(torch.complex(torch.zeros_like(S), S))
        U = torch.complex(U.real.to(dtype), U.imag.to(dtype))
        return ((U * _wave(w * t[..., None].to(S.dtype), dtype)[..., None, :]) @ U.mH).real, w, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(inputs[1], *output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        t, w, U = ctx.saved_tensors  # (...), (..., b), (..., b, b)
        t = t[..., None].to(w.dtype)
        slope, half = (U.mH @ grad.to(U.dtype) @ U).conj(), _wave(w * t / 2, grad.dtype)
        apart = (w[..., :, None] - w[..., None, :]) * t[..., None]
        divided = (t[..., None] * torch.sinc(apart / (2 * torch.pi))).to(grad.dtype)
        by_S = (slope * divided * half[..., :, None] * half[..., None, :]).sum_to_size(U.shape)
        by_S = (U.conj() @ by_S @ U.mT).real.to(w.dtype)
        if not ctx.needs_input_grad[1]:
            return by_S, None, None
        by_t = (slope.diagonal(dim1=-2, dim2=-1) * -1j * w * half * half).sum(-1).real
        return by_S, by_t.sum_to_size(t.shape[:-1]), None


def _wave(angle: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(-i angle)."""
    return torch.complex(angle.cos().to(dtype), -angle.sin().to(dtype))
