"""ObjectSincos, the object-based encoding (OPE) of ViTARC: sines and cosines of an object index and of the position."""

import math
from typing import Any, Literal

import torch
from torch import Tensor

from ndformer.encodings.embedding import AbsoluteEncoding, mask_unplaced, sines_and_cosines
from ndformer.framework.encoding.circles import round_to_turns
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Positive
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class ObjectSincos(AbsoluteEncoding):
    """Sines and cosines of the index of a token's object, then of each axis, added to the tokens (Li 2024, eq. 13).

    Object indices are `where.objects`; without them all tokens have 0, the background. Half of the channels encode the
    object, as in the published code (the paper does not say). The axes share the other half; the last axis also has the
    remainder. In each part, channels 2i and 2i + 1 are sin and cos of n / base^(2i / width). `preset='repo'` has all
    sines of a part before its cosines, and in two dimensions the column before the row. Nothing is learned.

    Paper: arXiv:2410.06405.
    """

    circular_axes = True

    def __init__(
        self, *args: Any, base: Positive = 10000.0, preset: Literal["paper", "repo"] = "paper", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        dims = self.position_dims
        if self.dim < 4 * dims:
            raise ValueError(
                f"ObjectSincos needs two channels per axis and as many for objects as for all axes, {4 * dims} for "
                f"{dims} dimensions, got dim {self.dim}"
            )
        self.base, self.interleaved = base, preset == "paper"
        self.axes = (1, 0) if preset == "repo" and dims == 2 else tuple(range(dims))
        object_width = self.dim // 2
        axis_width = (self.dim - object_width) // dims
        self.widths = [object_width, *[axis_width] * (dims - 1), self.dim - object_width - axis_width * (dims - 1)]

    @property
    def initial_radius(self) -> float | None:
        return math.pi * self.base  # half of the longest wavelength

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        r = positions.double()  # float32 is inexact for angles far from 0
        objects = torch.zeros_like(r[..., 0]) if where.objects is None else where.objects.double()
        rows = max(len(r), len(objects))
        numbers = [objects, *(r[..., axis] for axis in self.axes)]
        lengths = [None, *(self.circle_lengths[axis] for axis in self.axes)]
        parts = [self._waves(n.expand(rows, -1), *sizes) for n, *sizes in zip(numbers, self.widths, lengths)]
        table = torch.cat(parts, dim=-1).to(where.positions.dtype)  # (B, N, dim)
        return mask_unplaced(table, where)

    def _waves(self, n: Tensor, width: int, length: float | None) -> Tensor:
        """Return sines and cosines (B, N, width) of n (B, N), on a circle of this length or on a line."""
        exponents = torch.arange((width + 1) // 2, dtype=n.dtype, device=n.device) * 2 / width
        angles = n[..., None] * round_to_turns(self.base ** -exponents[:, None], (length,))[:, 0]
        return sines_and_cosines(angles, width, self.interleaved)
