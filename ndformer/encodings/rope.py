"""Axial and mixed RoPE (Heo et al. 2024), in any number of dimensions: two settings of RotaryND."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.encodings.rotary import LearnedTurns, RotaryND
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.base import Preset, axis_order, from_repo
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Positive


@ENCODINGS.register_module()
class AxialRoPE(RotaryND):
    """RoPE with a share of the channels for each axis (Heo 2024's axial form): pairs of axis p turn by r_p base^(-i/n).

    n = head_dim // (2 P) pairs per axis. Unplaced tokens are not turned, the field's practice: they act like tokens at
    the origin. `preset='pape_repo'` has base 10000, pairs (i, i + half), and, where 2 P does not divide the head, pads
    it and cuts the padding off after turning, which breaks the pairs it cuts: then it is not translation invariant.
    `axes` says which axis owns the first channels, which the next; the preset has x before y in 2-D.
    """

    def __init__(
        self,
        *args: Any,
        base: Positive | None = None,
        axes: Sequence[Axis] | None = None,
        preset: Preset = "original",
        **rest: Any,
    ) -> None:
        self.repo = from_repo(preset)
        super().__init__(*args, base=base or (10000.0 if self.repo else 100.0), halves=self.repo, **rest)
        self.axes = axis_order(axes, self.position_dims, self.repo)
        if self.turned > self.head_dim:
            self.translation_invariant = False

    @property
    def turned(self) -> int:
        each = 2 * self.position_dims
        return math.ceil(self.head_dim / each) * each if self.repo else self.head_dim


@ENCODINGS.register_module()
class RoPEMixed(RotaryND):
    """RoPE with learned frequency vectors, one per layer, head and pair, so that heads can turn along any direction
    (Heo 2024). At the start each head has a random frame of P orthonormal directions, and head_dim // (2 P) pairs turn
    along each, with frequencies base^(-i/n). `preset='pape_repo'`: wavelengths instead of frequencies, base 100, all
    heads and axes alike.
    """

    def __init__(self, *args: Any, base: Positive | None = None, preset: Preset = "original", **rest: Any) -> None:
        self.repo = from_repo(preset)
        base = base or (100.0 if self.repo else 10.0)
        super().__init__(*args, directions="mixed", learned=True, base=base, halves=self.repo, **rest)
        self.steps = self.head_dim // 2 if self.repo else self.steps

    @property
    def sizes(self) -> tuple[float, float]:
        fastest, slowest = super().sizes
        long = math.sqrt(self.position_dims) if self.repo else 1.0  # the same along all axes
        return long * fastest, long * slowest

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        if not self.repo:
            return super().frequencies(device)
        sizes = self.base ** -(torch.arange(self.steps, device=device) / self.steps)
        return sizes[None, :, None].repeat(self.heads, 1, self.position_dims)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        if not self.repo:
            return super().layer(index, depth)
        return LearnedTurns(1 / self.frequencies(), halves=True, inverse=True)


ENCODINGS.synonyms |= dict.fromkeys(("rope", "rotary", "2d-rope", "rope2d"), "AxialRoPE")


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(AxialRoPE, RoPEMixed)
