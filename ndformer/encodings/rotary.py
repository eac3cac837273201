"""Encodings that turn pairs of query and key channels by angles linear in the position.

A turn by w'r_i of q and by w'r_j of k leaves their product a function of w'(r_j - r_i): relative without a bias. One
table of frequencies w, (H or 1, pairs, P), tells the encodings of this file apart. Channels beyond the last pair pass
unturned, so any head width works for any number of dimensions.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import LayerEncoding, PerAxis, PositionEncoding, from_repo
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where


def angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """(B, N, P) and (H or 1, pairs, P) -> (B, H or 1, N, pairs), summed axis by axis in the positions' precision."""
    frequencies = frequencies.to(positions.dtype)
    terms = [r[:, None, :, None] * w[:, None, :] for r, w in zip(positions.unbind(-1), frequencies.unbind(-1))]
    return sum(terms[1:], terms[0])


def rotate(x: Tensor, cos: Tensor, sin: Tensor, halves: bool = False) -> Tensor:
    """Turn the first channel pairs of x (B, H, N, h): (0, 1), (2, 3) ... or, with `halves`, (i, i + pairs)."""
    pairs = cos.shape[-1]
    turned, rest = x[..., : 2 * pairs].to(cos.dtype), x[..., 2 * pairs :]
    if halves:
        a, b = turned[..., :pairs], turned[..., pairs:]
        turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    return torch.cat([turned.to(x.dtype), rest], dim=-1)


@ENCODINGS.register_module()
class AxialRoPE(PositionEncoding):
    """RoPE with a share of the channels for each axis (Heo 2024's axial form): pairs of axis p turn by r_p base^(-i/n).

    n = head_dim // (2 P) pairs per axis. Unplaced tokens are not turned, the field's practice: they act like tokens at
    the origin. `preset='pape_repo'` has base 10000, pairs (i, i + half), and, where 2 P does not divide the head, pads
    it and cuts the padding off after turning, which breaks the pairs it cuts: then it is not translation invariant.
    """

    rotation_invariant = False

    def __init__(
        self,
        dim: int,
        heads: int,
        position_dims: int,
        depth: int,
        base: float | None = None,
        preset: Literal["original", "pape_repo"] = "original",
        position_scale: PerAxis = 1.0,
    ) -> None:
        super().__init__(dim, heads, position_dims, depth, position_scale)
        self.repo = from_repo(preset)
        self.base = base if base is not None else 10000.0 if self.repo else 100.0
        self.pairs = (math.ceil if self.repo else math.floor)(self.head_dim / (2 * position_dims))  # per axis
        _enough(self, self.pairs)
        if self.repo and self.head_dim % (2 * position_dims):
            self.translation_invariant = False

    def tables(self, positions: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        steps = torch.arange(self.pairs, dtype=torch.float64, device=positions.device) / self.pairs
        own = torch.eye(self.position_dims, dtype=torch.float64, device=positions.device)
        frequencies = torch.einsum("i,pq->piq", self.base**-steps, own).flatten(0, 1)  # (pairs of all axes, P)
        turn = angles(positions, frequencies[None])
        return turn.cos(), turn.sin()  # (B, 1, N, pairs)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Turned(self.repo)


class _Turned(LayerEncoding):
    """Turns by a table shared by all layers."""

    def __init__(self, halves: bool) -> None:
        super().__init__()
        self.halves = halves

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        cos, sin = state
        width = q.shape[-1]
        spare = max(0, 2 * cos.shape[-1] - width)  # the padding of pape_repo
        q, k = (rotate(F.pad(t, (0, spare)), cos, sin, self.halves)[..., :width] for t in (q, k))
        return q, k


@ENCODINGS.register_module()
class RoPEMixed(PositionEncoding):
    """RoPE with learned frequency vectors, one per layer, head and pair, so that heads can turn along any direction
    (Heo 2024). At the start each head has a random frame of P orthonormal directions, and head_dim // (2 P) pairs turn
    along each, with frequencies base^(-i/n). `preset='pape_repo'`: wavelengths instead of frequencies, base 100, all
    heads and axes alike.
    """

    rotation_invariant = False

    def __init__(
        self,
        dim: int,
        heads: int,
        position_dims: int,
        depth: int,
        base: float | None = None,
        preset: Literal["original", "pape_repo"] = "original",
        position_scale: PerAxis = 1.0,
    ) -> None:
        super().__init__(dim, heads, position_dims, depth, position_scale)
        self.repo = from_repo(preset)
        self.base = base if base is not None else 100.0 if self.repo else 10.0
        self.pairs = self.head_dim // 2 if self.repo else self.head_dim // (2 * position_dims)  # per direction
        _enough(self, self.pairs)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        sizes = self.base ** -(torch.arange(self.pairs) / self.pairs)
        if self.repo:
            wavelengths = (1 / sizes)[None, :, None].repeat(self.heads, 1, self.position_dims)
            return _LearnedTurns(wavelengths, inverse=True)
        frames = _frames(self.heads, self.position_dims)  # (H, P directions, P)
        return _LearnedTurns((frames[:, :, None, :] * sizes[:, None]).flatten(1, 2), inverse=False)


class _LearnedTurns(LayerEncoding):
    no_weight_decay = ("frequencies",)

    def __init__(self, frequencies: Tensor, inverse: bool) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(frequencies)  # (H, pairs, P); wavelengths where `inverse`
        self.inverse = inverse

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        exact = self.frequencies.to(torch.promote_types(self.frequencies.dtype, torch.float32))
        turn = angles(state, 1 / exact if self.inverse else exact)
        cos, sin = turn.cos(), turn.sin()  # (B, H, N, pairs)
        return rotate(q, cos, sin, self.inverse), rotate(k, cos, sin, self.inverse)


def _frames(heads: int, dims: int) -> Tensor:
    """(heads, dims, dims) random rotations, uniform over SO(dims)."""
    q, r = torch.linalg.qr(torch.randn(heads, dims, dims))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    q[:, :, 0] *= torch.linalg.det(q).sign()[:, None]
    return q.mT


def _enough(encoding: PositionEncoding, pairs: int) -> None:
    if pairs == 0:
        raise ValueError(
            f"{type(encoding).__name__} turns two channels per axis: a head of {encoding.head_dim} is too narrow for "
            f"{encoding.position_dims} dimensions, which take {2 * encoding.position_dims}. PaPE and ALiBi fit all"
        )


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(AxialRoPE, RoPEMixed)
