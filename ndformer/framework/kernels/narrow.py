"""Attention with parabolic biases in narrow heads at distant positions, on a CPU with numba.

If positions are too far apart for extra channels of q and k, torch's kernel needs the bias of all pairs as a mask and
takes about 1.5 times as long as these loops. Positions are subtracted before differences are squared, so the extent
does not matter. At close positions torch's kernel with extra channels is faster, with AVX2 and more so with AVX-512.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import Parabolas, SeparableBias
from ndformer.framework.kernels import narrow_backward, narrow_numba
from ndformer.framework.kernels.backend import Backend, samples
from ndformer.framework.kernels.narrow_numba import ROW, TILE
from ndformer.framework.system.jit import in_memory, numba_works
from ndformer.framework.tokens import Where

# Up to these channels per head and from these tokens on, torch's kernel with a mask is slower
# (tools/benchmarks/backends.py)
MAX_WIDTH, MIN_TOKENS = 64, 40
MAX_WIDTH_TRAINING, MIN_TOKENS_TRAINING = 32, 300  # with gradients
AXES = 3
FACTORS = (1.0, 2.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0)  # off-diagonal entries of M count twice


class Narrow(Backend):
    """Compiled CPU loops for parabolic biases of placed tokens in up to three dimensions, in float32."""

    name = "narrow"

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        if q.device.type != "cpu" or q.dtype != torch.float32 or torch.compiler.is_compiling():
            return False
        if not isinstance(bias, SeparableBias) or where.placed is not None or q.shape[-1] % 8 or v.shape[-1] % 8:
            return False
        parts = bias.parabolas()
        if any(axis.dtype != torch.float32 for axis in parts.axes):
            return False
        if not all(map(in_memory, (q, k, v, *parts.entries.values()))):
            return False
        uncut = where.segment is not None and samples(q, where) is None
        return len(parts.axes) <= AXES and not uncut and numba_works()

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        if not isinstance(bias, SeparableBias) or bias.separable or q.shape[2] < MIN_TOKENS:
            return False
        parts = bias.parabolas()
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in (q, *parts.entries.values()))):
            return q.shape[-1] <= MAX_WIDTH
        P = len(parts.axes)
        full = len(parts.entries) >= P * (P + 1) // 2  # PaPE; the mask of PaPE-RI costs less
        return full and q.shape[2] >= MIN_TOKENS_TRAINING and q.shape[-1] <= MAX_WIDTH_TRAINING

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if not self.serves(q, k, v, where, bias):
            raise ValueError(
                f"backend 'narrow' requires a parabolic bias (PaPE, PaPE-RI), placed tokens in up to {AXES} axes, "
                "heads of 8, 16 ... channels, float32 on a CPU and numba. Use backend 'auto'"
            )
        assert isinstance(bias, SeparableBias)
        return _narrow(q, k, v, where, bias.parabolas(), scale)


def _narrow(q: Tensor, k: Tensor, v: Tensor, where: Where, parts: Parabolas, scale: float) -> Tensor:
    B, H, N, _ = q.shape
    terms = torch.stack(parts.coefficients(AXES, (B, H, N)), -1)  # (B, H, N, 9)
    places = F.pad(torch.stack(parts.axes, -1), (0, AXES - len(parts.axes)))  # (B or 1, N, 3)
    valid = None if where.valid is None else where.valid.expand(B, N)
    return _Loops.apply(q, k, v, terms, places, valid, scale)[0]


class _Loops(torch.autograd.Function):
    """Attention by compiled loops, forward and backward; also returns log2 of each query's sum of weights."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        q: Tensor, k: Tensor, v: Tensor, terms: Tensor, places: Tensor, valid: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        keys, (queries, parabolas) = _Keys(places, valid, len(q)), _queries(q, terms, places, scale)
        out, weights = q.new_zeros(*queries.shape[:3], v.shape[-1]), q.new_zeros(queries.shape[:3])
        rows = queries, keys.in_eights(k), keys.long(v), parabolas, out, weights
        _run(narrow_numba.compiled(), [keys.counts, keys.tiled_places], rows)
        return out[:, :, : q.shape[2]], weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:-1], *output)
        ctx.mark_non_differentiable(output[1])
        ctx.scale = inputs[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, terms, places, valid, out, weights = ctx.saved_tensors
        N = q.shape[2]
        keys, (queries, parabolas) = _Keys(places, valid, len(q)), _queries(q, terms, places, ctx.scale)
        kT, vT = keys.in_eights(k), keys.in_eights(v)
        per_query = weights, _even(gradient), F.pad((gradient * out).sum(-1), (0, N % 2))
        dq, dk, dv = (q.new_zeros(t.shape) for t in (queries, kT, vT))  # contiguous, which q may not be
        dterms = q.new_zeros(*queries.shape[:3], len(FACTORS))
        rows = queries, kT, vT, keys.long(k), parabolas, *per_query, dq, dk, dv, dterms
        _run(narrow_backward.compiled(), [keys.counts, keys.tiled_places, keys.long_places], rows)
        dk = keys.from_eights(dk) * math.log(2)  # queries were multiplied by log2(e)
        dterms = dterms[:, :, :N] * q.new_tensor(FACTORS)
        return dq[:, :, :N] * ctx.scale, dk, keys.from_eights(dv), dterms, None, None, None


def _queries(q: Tensor, terms: Tensor, places: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return q (B, H, N, D), and coefficients and position (B, H, N, 9 + 3), for logits in base 2.

    N is padded to an even number because the loops process pairs.
    """
    log2 = math.log2(math.e)
    positions = places[:, None].expand(*q.shape[:3], AXES)
    terms = terms * (q.new_tensor(FACTORS) * log2)
    return _even(q * (scale * log2)), _even(torch.cat([terms, positions], -1))


def _even(t: Tensor) -> Tensor:
    return F.pad(t, (0, 0, 0, 1)) if t.shape[2] % 2 else t


class _Keys:
    """Layouts of keys and values for the loops, with valid keys first."""

    def __init__(self, places: Tensor, valid: Tensor | None, batch: int) -> None:
        N = places.shape[1]
        self.order = None if valid is None else (~valid).to(torch.uint8).argsort(dim=1, stable=True)  # (B, N)
        self.counts = torch.full((batch,), N) if valid is None else valid.sum(1)
        self.N = N
        self.long_places = self.long(places[:, None].expand(batch, 1, N, AXES))[:, 0]  # (B, 3, tiles TILE)
        self.tiled_places = _tiled(self.long_places).flatten(2)  # (B, tiles, 3 ROW)

    def long(self, t: Tensor) -> Tensor:
        """Transpose (B, H, N, C) to (B, H, C, tiles TILE)."""
        t = t.mT
        if self.order is not None:
            t = t.gather(3, self.order[:, None, None].expand_as(t))
        return F.pad(t, (0, -self.N % TILE))

    def in_eights(self, t: Tensor) -> Tensor:
        """Tile (B, H, N, C) to (B, H, tiles, C / 8, 8 ROW)."""
        return _tiled(self.long(t)).unflatten(3, (t.shape[-1] // 8, 8)).flatten(4)

    def from_eights(self, eights: Tensor) -> Tensor:
        """Invert in_eights: (B, H, tiles, C / 8, 8 ROW) to (B, H, N, C) in the original key order."""
        tiled = eights.unflatten(4, (8, ROW)).flatten(3, 4)[..., :TILE]  # (B, H, tiles, C, TILE)
        t = tiled.transpose(2, 3).flatten(3)[..., : self.N].mT  # (B, H, N, C)
        if self.order is None:
            return t
        return torch.zeros_like(t).scatter(2, self.order[:, None, :, None].expand_as(t), t)


def _tiled(channels: Tensor) -> Tensor:
    """Tile (..., C, tiles TILE) to (..., tiles, C, ROW)."""
    return F.pad(channels.unflatten(-1, (-1, TILE)).transpose(-2, -3), (0, ROW - TILE))


def _run(loops: Callable[..., Any], samples: Sequence[Tensor], rows: Sequence[Tensor]) -> None:
    """Run loops on arrays (B, ...) and (B, H, ...); outputs come last and must be contiguous."""
    heads = rows[0].shape[1]
    arrays = [*samples, *(t.flatten(0, 1) for t in rows)]
    loops(torch.get_num_threads(), len(samples[0]) * heads, heads, *(t.contiguous().numpy() for t in arrays))
