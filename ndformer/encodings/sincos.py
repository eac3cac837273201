"""Sincos and LearnableSincos: sines and cosines of the position, added to the tokens before the first block."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.embedding import AbsoluteEncoding, mask_unplaced, sines_and_cosines
from ndformer.framework.encoding.base import Preset, axis_order
from ndformer.framework.encoding.circles import round_to_turns
from ndformer.framework.encoding.coverage import Coverage, Span, ladder_base, waves
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Positive
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class Sincos(AbsoluteEncoding):
    """Sines and cosines of each axis (Vaswani 2017; Wang & Liu 2021 for 2-D; here for any number of dimensions).

    Axis p has D_p = dim // P channels (the last axis also has the remainder); its channels 2i and 2i + 1 are sin and
    cos of r_p / base^(2i / D_p). `axes` is the order of the axes. `preset='pape_repo'` has all sines of an axis before
    its cosines and, in 2-D, x before y: the same numbers in another order, for checkpoints of that repository. Nothing
    is learned.

    Paper: arXiv:1706.03762.
    """

    circular_axes = True

    def __init__(
        self,
        *args: Any,
        base: Positive = 10000.0,
        axes: Sequence[Axis] | None = None,
        preset: Preset = "original",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        dims, dim = self.position_dims, self.dim
        if dim < 2 * dims:
            raise ValueError(f"Sincos needs two channels per axis, {2 * dims} for {dims} dimensions, got dim {dim}")
        self.base = base
        self.interleaved = preset == "original"
        self.axes = axis_order(axes, dims, preset == "pape_repo")
        axis_width = dim // dims
        self.widths = [axis_width] * (dims - 1) + [dim - axis_width * (dims - 1)]

    @property
    def initial_radius(self) -> float | None:
        return math.pi * self.base  # half of the longest wavelength

    def covers(self, span: Span) -> list[Coverage]:
        reports = []
        for p, width in zip(self.axes, self.widths):
            n = (width + 1) // 2
            lengths = [2 * math.pi * self.base ** (2 * i / width) for i in range(n)]
            hint = lambda longest, n=n: f"base={ladder_base(longest, n):.3g}"
            if span.extent[p] > 0:
                reports.append(waves(f"waves along axis {p}", lengths, span.step[p], span.extent[p], hint))
        return reports

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        angles = zip(self.angles(positions.double()), self.widths)
        channels = [sines_and_cosines(axis, width, self.interleaved) for axis, width in angles]
        table = torch.cat(channels, dim=-1).to(where.positions.dtype)  # (B, N, dim)
        return mask_unplaced(table, where)

    def angles(self, r: Tensor) -> list[Tensor]:
        """Return the angles (B, N, ceil(D_p / 2)) of each axis; r is in float64, as float32 is inexact far from 0."""
        exponents = [torch.arange((w + 1) // 2, dtype=r.dtype, device=r.device) * 2 / w for w in self.widths]
        lengths = self.circle_lengths
        frequencies = [
            round_to_turns(self.base ** -e[:, None], lengths[p : p + 1]) for p, e in zip(self.axes, exponents)
        ]
        return [r[..., p, None] * w[:, 0] for p, w in zip(self.axes, frequencies)]


@ENCODINGS.register_module()
class LearnableSincos(Sincos):
    """Sincos with learned frequency vectors W: channels 2i and 2i + 1 are sin and cos of (W r)_i (a master's thesis).

    Equation 6 of the thesis that docs/reference/encodings/absolute.md names. W is the sum of the frequencies of Sincos,
    in float64, and the parameter `offsets`, which starts at 0: before training it equals Sincos exactly, far from 0
    too.

    Weights, shared by all layers: `offsets` (angles, P).
    """

    circular_axes = False
    line_reason = "its learned frequencies do not stay whole turns"
    no_weight_decay = ("offsets",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.angle_counts = [(width + 1) // 2 for width in self.widths]
        self.offsets = nn.Parameter(torch.zeros(sum(self.angle_counts), self.position_dims))

    def angles(self, r: Tensor) -> list[Tensor]:
        learned = (r @ self.offsets.to(r.dtype).T).split(self.angle_counts, dim=-1)
        return [fixed + offset for fixed, offset in zip(super().angles(r), learned)]


ENCODINGS.synonyms |= dict.fromkeys(("sinusoidal", "sine", "sin", "fixed"), "Sincos")
