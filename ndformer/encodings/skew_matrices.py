"""Skew-symmetric matrices S, S' = -S, and the rotations that they generate: exp(t S) and the Cayley transform."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def skew(entries: Tensor, width: int) -> Tensor:
    """Return skew matrices (..., width, width) from their entries below the diagonal (..., width (width - 1) / 2)."""
    row, column = torch.tril_indices(width, width, -1, device=entries.device)
    below = entries.new_zeros(*entries.shape[:-1], width * width).index_copy(-1, row * width + column, entries)
    below = below.unflatten(-1, (width, width))
    return below - below.mT


def cayley(skew: Tensor) -> Tensor:
    """Return the rotation (I - S) (I + S)^-1; I + S is invertible for every skew S."""
    identity = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve_ex(identity + skew, identity - skew).result  # the two factors commute


def rotate_blocks(x: Tensor, rotations: Tensor) -> Tensor:
    """Multiply blocks of the first channels of x (B, H, N, h) by rotations (B or 1, H, N, blocks, b, b)."""
    blocks, b = rotations.shape[-3], rotations.shape[-1]
    rotated, unrotated = x[..., : blocks * b].to(rotations.dtype).unflatten(-1, (blocks, b)), x[..., blocks * b :]
    rotated = torch.einsum("bhnkij,bhnkj->bhnki", rotations, rotated).flatten(-2)
    return torch.cat([rotated.to(x.dtype), unrotated], dim=-1)


class SkewExponential(torch.autograd.Function):
    """exp(t S), (..., b, b) in `dtype`, of skew matrices S (..., b, b), float64, and factors t (...).

    Dimensions of S may be 1 where those of t are larger: one eigenvalue decomposition serves all t. With i S =
    U diag(w) U*, the derivative is that of Daleckii and Krein, U ((U* dS U) o F) U*, where F is the divided difference
    of exp(-i w t). Written with a sinc it does not divide by differences of eigenvalues, as derivatives of eigenvectors
    do: eigenvalues come in pairs w, -w, and all are 0 at S = 0. It also returns w and U, which backward needs.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(S: Tensor, t: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        w, U = torch.linalg.eigh(torch.complex(torch.zeros_like(S), S))
        U = torch.complex(U.real.to(dtype), U.imag.to(dtype))
        return ((U * _phase(w * t[..., None].to(S.dtype), dtype)[..., None, :]) @ U.mH).real, w, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(inputs[1], *output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        t, w, U = ctx.saved_tensors  # (...), (..., b), (..., b, b)
        t = t[..., None].to(w.dtype)
        projected, half_phase = (U.mH @ grad.to(U.dtype) @ U).conj(), _phase(w * t / 2, grad.dtype)
        differences = (w[..., :, None] - w[..., None, :]) * t[..., None]
        divided = (t[..., None] * torch.sinc(differences / (2 * torch.pi))).to(grad.dtype)
        grad_S = (projected * divided * half_phase[..., :, None] * half_phase[..., None, :]).sum_to_size(U.shape)
        grad_S = (U.conj() @ grad_S @ U.mT).real.to(w.dtype)
        if not ctx.needs_input_grad[1]:
            return grad_S, None, None
        grad_t = (projected.diagonal(dim1=-2, dim2=-1) * -1j * w * half_phase * half_phase).sum(-1).real
        return grad_S, grad_t.sum_to_size(t.shape[:-1]), None


def _phase(angle: Tensor, dtype: torch.dtype) -> Tensor:
    """Return exp(-i angle)."""
    return torch.complex(angle.cos().to(dtype), -angle.sin().to(dtype))
