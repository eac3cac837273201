"""Encodings that turn pairs of query and key channels by angles linear in the position.

A turn by w'r_i of q and by w'r_j of k leaves their product a function of w'(r_j - r_i): relative without a bias. One
table of frequencies w, (H or 1, pairs, P), tells the encodings of this file apart. Channels beyond the last pair pass
unturned, so any head width works for any number of dimensions.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding, Preset, axis_order, centred, from_repo
from ndformer.framework.ranges import Axis, Positive
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
        across = torch.stack([-turned[..., 1::2], turned[..., 0::2]], dim=-1).flatten(-2)
        turned = turned * cos.repeat_interleave(2, -1) + across * sin.repeat_interleave(2, -1)
    return torch.cat([turned.to(x.dtype), rest], dim=-1)


class _Rotary(PositionEncoding):
    """Pairs of channels, some for each axis or direction, whose frequencies fall by powers of a base."""

    rotation_invariant = False
    bases: ClassVar[tuple[float, float]]  # where none is given: the authors', pape_repo's

    def __init__(self, *args: Any, base: Positive | None = None, preset: Preset = "original", **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.repo = from_repo(preset)
        self.base = self.bases[self.repo] if base is None else base
        self.pairs = self.pairs_each()
        if self.pairs == 0:
            raise ValueError(
                f"{type(self).__name__} turns two channels per axis: a head of {self.head_dim} is too narrow for "
                f"{self.position_dims} dimensions, which take {2 * self.position_dims}. PaPE and ALiBi fit all"
            )

    def pairs_each(self) -> int:
        """How many there are for each axis or direction."""
        raise NotImplementedError

    @property
    def first_reach(self) -> float | None:
        return math.pi * self.base ** (1 - 1 / self.pairs)  # half of the longest wave

    def near(self, positions: Tensor, where: Where) -> Tensor:
        """Positions whose angles have their digits: about the mean, which leaves turns between tokens as they are. But
        tokens without a place act as if at the origin, which then has to stay: there, angles are in float64."""
        if self.translation_invariant and where.placed is None:
            return centred(positions, where, where.valid)
        return positions.double()


@ENCODINGS.register_module()
class AxialRoPE(_Rotary):
    """RoPE with a share of the channels for each axis (Heo 2024's axial form): pairs of axis p turn by r_p base^(-i/n).

    n = head_dim // (2 P) pairs per axis. Unplaced tokens are not turned, the field's practice: they act like tokens at
    the origin. `preset='pape_repo'` has base 10000, pairs (i, i + half), and, where 2 P does not divide the head, pads
    it and cuts the padding off after turning, which breaks the pairs it cuts: then it is not translation invariant.
    `axes` says which axis owns the first channels, which the next; the preset has x before y in 2-D.
    """

    bases = 100.0, 10000.0

    def __init__(self, *args: Any, axes: Sequence[Axis] | None = None, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.axes = axis_order(axes, self.position_dims, self.repo)
        if self.repo and self.head_dim % (2 * self.position_dims):
            self.translation_invariant = False

    def pairs_each(self) -> int:
        return (math.ceil if self.repo else math.floor)(self.head_dim / (2 * self.position_dims))

    def tables(self, positions: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        steps = torch.arange(self.pairs, dtype=torch.float64, device=positions.device) / self.pairs
        own = torch.eye(self.position_dims, dtype=torch.float64, device=positions.device)[list(self.axes)]
        frequencies = torch.einsum("i,pq->piq", self.base**-steps, own).flatten(0, 1)  # (pairs of all axes, P)
        turn = angles(self.near(positions, where), frequencies[None])
        return turn.cos().to(positions.dtype), turn.sin().to(positions.dtype)  # (B, 1, N, pairs)

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
class RoPEMixed(_Rotary):
    """RoPE with learned frequency vectors, one per layer, head and pair, so that heads can turn along any direction
    (Heo 2024). At the start each head has a random frame of P orthonormal directions, and head_dim // (2 P) pairs turn
    along each, with frequencies base^(-i/n). `preset='pape_repo'`: wavelengths instead of frequencies, base 100, all
    heads and axes alike.
    """

    bases = 10.0, 100.0

    def pairs_each(self) -> int:
        return self.head_dim // 2 if self.repo else self.head_dim // (2 * self.position_dims)

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        return self.near(positions, where)

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
        cos, sin = turn.cos().to(exact.dtype), turn.sin().to(exact.dtype)  # (B, H, N, pairs)
        return rotate(q, cos, sin, self.inverse), rotate(k, cos, sin, self.inverse)


def _frames(heads: int, dims: int) -> Tensor:
    """(heads, dims, dims) random rotations, uniform over SO(dims)."""
    q, r = torch.linalg.qr(torch.randn(heads, dims, dims))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    q[:, :, 0] *= torch.linalg.det(q).sign()[:, None]
    return q.mT


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(AxialRoPE, RoPEMixed)
