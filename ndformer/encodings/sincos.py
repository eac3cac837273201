"""Sines and cosines added to the tokens once, before the first block: fixed, or with frequencies that learn."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.base import Preset, axis_order, from_repo
from ndformer.framework.encoding.coverage import Coverage, Span, ladder_base, waves
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Positive
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class Sincos(PositionEncoding):
    """Sines and cosines of each axis (Vaswani 2017; Wang & Liu 2021 for 2-D; here for any number of dimensions).

    Axis p owns D_p channels (dim // P; the last axis takes what remains); channels 2i and 2i+1 of it are sin and cos of
    r_p / base^(2i / D_p). The first channels turn fastest. `preset='pape_repo'` puts all sines of an axis before its
    cosines: the same numbers in another order, for that repository's checkpoints. `axes` says which axis owns the first
    channels, which the next; the preset has x before y in 2-D.
    """

    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self,
        *args: Any,
        base: Positive = 10000.0,
        axes: Sequence[Axis] | None = None,
        preset: Preset = "original",
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        dims, dim = self.position_dims, self.dim
        if dim < 2 * dims:
            raise ValueError(f"Sincos needs two channels per axis, {2 * dims} for {dims} dimensions, got dim {dim}")
        self.base = base
        self.interleaved = not from_repo(preset)
        self.axes = axis_order(axes, dims, from_repo(preset))
        each = dim // dims
        self.widths = [each] * (dims - 1) + [dim - each * (dims - 1)]

    @property
    def initial_radius(self) -> float | None:
        return math.pi * self.base  # half of the longest wave

    def covers(self, span: Span) -> list[Coverage]:
        found = []
        for p, width in zip(self.axes, self.widths):
            n = (width + 1) // 2
            lengths = [2 * math.pi * self.base ** (2 * i / width) for i in range(n)]
            hint = lambda longest, n=n: f"base={ladder_base(longest, n):.3g}"
            if span.extent[p] > 0:
                found.append(waves(f"waves along axis {p}", lengths, span.step[p], span.extent[p], hint))
        return found

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        channels = [self._channels(*axis) for axis in zip(self.angles(positions.double()), self.widths)]
        table = torch.cat(channels, dim=-1).to(where.positions.dtype)  # (B, N, dim)
        return table if where.real is None else table.masked_fill(~where.real[..., None], 0)

    def angles(self, r: Tensor) -> list[Tensor]:
        """(B, N, P) -> for each axis (B, N, D_p / 2, rounded up), in float64: float32 has no digits far from 0."""
        turns = [torch.arange((w + 1) // 2, dtype=r.dtype, device=r.device) * 2 / w for w in self.widths]
        return [r[..., p, None] * self.base**-turn for p, turn in zip(self.axes, turns)]

    def _channels(self, angles: Tensor, width: int) -> Tensor:
        """(B, N, width / 2, rounded up) -> (B, N, width)."""
        sin, cos = angles.sin(), angles.cos()[..., : width // 2]
        if not self.interleaved:
            return torch.cat([sin, cos], dim=-1)
        pairs = torch.stack([sin[..., : width // 2], cos], dim=-1).flatten(-2)
        return torch.cat([pairs, sin[..., width // 2 :]], dim=-1)

    def embed(self, x: Tensor, state: Tensor) -> Tensor:
        return x + state.to(x.dtype)


@ENCODINGS.register_module()
class LearnableSincos(Sincos):
    """Sincos with frequencies that learn, of every channel along every axis (a master's thesis, equation 6).

    Weights: `offsets` (rows, P), what training adds to the frequencies of Sincos, which stay in float64: W of the
    equation is their sum. So it starts as Sincos to the last bit, far from 0 too.
    """

    no_weight_decay = ("offsets",)

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.rows = [(width + 1) // 2 for width in self.widths]
        self.offsets = nn.Parameter(torch.zeros(sum(self.rows), self.position_dims))

    def angles(self, r: Tensor) -> list[Tensor]:
        learnt = (r @ self.offsets.to(r.dtype).T).split(self.rows, dim=-1)
        return [fixed + more for fixed, more in zip(super().angles(r), learnt)]


ENCODINGS.synonyms |= dict.fromkeys(("sinusoidal", "sine", "sin", "fixed"), "Sincos")


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(Sincos, LearnableSincos)
