"""Parabolas in narrow heads, on a CPU and without gradients, where numba is installed.

As channels of q and k, nine coefficients make a head of 16 channels one of 32, v included, for which torch's kernel
takes half as long again; where positions are too far apart for that, it is given a mask, for several times as long.
Here they are a few multiplications beside the others, for little more than no encoding. Differences of positions are
taken before they are squared, so it does not matter how far apart tokens are.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import Parabolas, SeparableBias
from ndformer.framework.jit import numba_works
from ndformer.framework.kernels.backend import Backend, samples
from ndformer.framework.kernels.narrow_numba import ROW, TILE, compiled
from ndformer.framework.tokens import Where

WIDEST, FEWEST = 24, 100  # channels of a head and tokens of a row: with more, or fewer, torch's kernel is as fast
FEWEST_MASKED = 40  # tokens of a row, where that would need a mask
AXES = 3
# of dr' M dr + c' dr, as the kernel has them
TERMS = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2), (0,), (1,), (2,)]


class Narrow(Backend):
    """Serves parabolas of placed tokens in up to three dimensions, all in float32 on a CPU, without gradients."""

    name = "narrow"

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        if q.device.type != "cpu" or q.dtype != torch.float32 or torch.compiler.is_compiling():
            return False
        if not isinstance(bias, SeparableBias) or where.placed is not None or q.shape[-1] % 8 or v.shape[-1] % 8:
            return False
        parts = bias.parabolas()
        if any(axis.dtype != torch.float32 for axis in parts.axes):
            return False
        learned = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v, *parts.entries.values()))
        whole = where.segment is not None and samples(q, where) is None
        return len(parts.axes) <= AXES and not learned and not whole and numba_works()

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        fewest = FEWEST if isinstance(bias, SeparableBias) and bias.separable else FEWEST_MASKED
        return q.shape[-1] <= WIDEST and q.shape[2] >= fewest

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if not self.serves(q, k, v, where, bias):
            raise ValueError(
                f"backend 'narrow' is for parabolas (PaPE, PaPE-RI) of placed tokens in up to {AXES} dimensions, and "
                "heads of 8, 16 ... channels, in float32 on a CPU, without gradients, with numba installed: take 'auto'"
            )
        assert isinstance(bias, SeparableBias)
        with torch.no_grad():
            return _narrow(q, k, v, where, bias.parabolas(), scale)


def _narrow(q: Tensor, k: Tensor, v: Tensor, where: Where, parts: Parabolas, scale: float) -> Tensor:
    B, H, N, D = q.shape
    log2 = math.log2(math.e)  # the kernel has powers of two
    none = q.new_zeros(1).expand(B, H, N)
    terms = torch.stack([parts.entries.get(term, none).expand(B, H, N) for term in TERMS], -1)
    times = q.new_tensor([log2 * (1 + (len(set(term)) == 2)) for term in TERMS])  # M has off-diagonal entries twice
    places = F.pad(torch.stack(parts.axes, -1), (0, AXES - len(parts.axes)))  # (B or 1, N, 3)
    parabolas = torch.cat([terms * times, places[:, None].expand(B, H, N, AXES)], -1)  # (B, H, N, 9 + 3)
    kT, vT, rT, counts = k.mT, v.mT, places.mT.expand(B, -1, -1), torch.full((B,), N)
    if where.valid is not None:  # keys that are, first
        valid = where.valid.expand(B, N)
        counts, order = valid.sum(1), (~valid).to(torch.uint8).argsort(dim=1, stable=True)
        kT, vT = (t.gather(3, order[:, None, None].expand_as(t)) for t in (kT, vT))
        rT = rT.gather(2, order[:, None].expand_as(rT))
    arrays = dict(
        q=(q * (scale * log2)).flatten(0, 1),
        kT=_tiled(kT).unflatten(3, (D // 8, 8)).flatten(4).flatten(0, 1),  # (B H, tiles, D / 8, 8 ROW)
        rT=_tiled(rT).flatten(2),  # (B, tiles, 3 ROW)
        vT=F.pad(vT, (0, -N % TILE)).flatten(0, 1),
        parabolas=parabolas.flatten(0, 1),
        counts=counts,
    )
    out = q.new_zeros(B * H, N, v.shape[-1])
    compiled()(torch.get_num_threads(), H, *(t.contiguous().numpy() for t in arrays.values()), out.numpy())
    return out.unflatten(0, (B, H))


def _tiled(channels: Tensor) -> Tensor:
    """(..., C, N) -> (..., tiles, C, ROW)."""
    tiles = -(-channels.shape[-1] // TILE)
    cut = F.pad(channels, (0, tiles * TILE - channels.shape[-1])).unflatten(-1, (tiles, TILE))
    return F.pad(cut.transpose(-2, -3), (0, ROW - TILE))
