"""Encodings added to the tokens once, before the first block."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.encoding import PositionEncoding, Preset, axis_order, from_repo
from ndformer.framework.ranges import Axis, Positive
from ndformer.framework.registry import ENCODINGS
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

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        each = self.dim // self.position_dims
        widths = [each] * (self.position_dims - 1) + [self.dim - each * (self.position_dims - 1)]
        table = torch.cat(
            [self._axis(positions[..., p], width) for p, width in zip(self.axes, widths)], dim=-1
        )  # (B, N, dim)
        return table if where.real is None else table.masked_fill(~where.real[..., None], 0)

    def _axis(self, r: Tensor, width: int) -> Tensor:
        """(B, N) -> (B, N, width)."""
        turns = torch.arange((width + 1) // 2, dtype=torch.float64, device=r.device) * 2 / width
        angles = r[..., None].double() * self.base**-turns  # float32 has no digits for them far from 0
        sin, cos = angles.sin().to(r.dtype), angles.cos()[..., : width // 2].to(r.dtype)
        if not self.interleaved:
            return torch.cat([sin, cos], dim=-1)
        pairs = torch.stack([sin[..., : width // 2], cos], dim=-1).flatten(-2)
        return torch.cat([pairs, sin[..., width // 2 :]], dim=-1)

    def embed(self, x: Tensor, state: Tensor) -> Tensor:
        return x + state.to(x.dtype)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(Sincos)
