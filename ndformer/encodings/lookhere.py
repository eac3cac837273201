"""LookHere: heads that look one way each, and less far the deeper they are (Fuller 2024).

The published masks are cones about lattice directions, so they are computed from positions: one dot product per pair,
nothing N x N stored, any size and shape of image, and any number of dimensions.
"""

import itertools
import math
from typing import Any, Literal

import numpy as np
from torch import Tensor

from ndformer.framework.bias.base import Bias, SumBias
from ndformer.framework.bias.pointwise import ConeBias, DistanceBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import Preset, centered, from_repo
from ndformer.framework.encoding.coverage import Coverage, Span, slope_radii
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Positive
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class LookHere(PositionEncoding):
    """-layer_slope slope_h |dr| for keys inside head h's field of view, -inf outside.

    `fov` is the angle of the view: 180 (half planes), 90 (quadrants about the diagonals, then about the axes) or 45
    degrees. Four of twelve heads look everywhere, a third of fewer. Layer slopes fall from 1.5 in the first block to
    0.5 in the last.
    `preset='pape_repo'`: 1.5 in all layers, times a global slope of 2.
    """

    rotation_invariant = False
    scaled_positions = "float64"  # a key on the border of a cone stays inside it

    def __init__(
        self,
        *args: Any,
        fov: Literal[180, 90, 45] = 90,
        global_slope: Positive | None = None,
        preset: Preset = "original",
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        if fov not in (180, 90, 45):
            raise ValueError(f"fov is 180, 90 or 45 degrees, got {fov}")
        repo = from_repo(preset)
        self.global_slope = global_slope if global_slope is not None else 2.0 if repo else 1.0
        self.layer_slopes = (1.5, 1.5) if repo else (1.5, 0.5)
        heads, dims = self.heads, self.position_dims
        everywhere = heads // 3 if heads < 12 else heads // 12 * 4
        sets = np.array(directions(dims, fov))  # (n, P)
        looking = np.arange(heads - everywhere)
        self.directions = [*sets[looking % len(sets)].tolist(), *[[0.0] * dims] * everywhere]  # (H, P)
        self.cosines = [math.cos(math.radians(fov / 2))] * len(looking) + [-1.0] * everywhere
        # each time round the directions looks twice as far; heads that look everywhere range widely
        near = [2.0 ** -(1 + i // len(sets)) for i in range(len(looking))]
        self.slopes = near + [4.0 ** -(1 + i % 4) for i in range(everywhere)]
        self.constants = [Constant(numbers) for numbers in (self.directions, self.cosines, self.slopes)]

    @property
    def initial_radius(self) -> float | None:
        return 5 / (self.global_slope * min(self.layer_slopes) * min(self.slopes))  # where a token weighs a hundredth

    def covers(self, span: Span) -> list[Coverage]:
        return [slope_radii([self.global_slope * min(self.layer_slopes) * slope for slope in self.slopes], span)]

    def tables(self, positions: Tensor, where: Where) -> tuple[Tensor, Tensor, Bias]:
        directions, cosines, slopes = (numbers(positions) for numbers in self.constants)
        cone = ConeBias(directions, cosines, positions)
        own = where.positions.dtype
        if positions.dtype != own:
            positions, slopes = centered(positions, where).to(own), slopes.to(own)
        return positions, slopes, cone

    def layer(self, index: int, depth: int) -> LayerEncoding:
        first, last = self.layer_slopes
        return _Looking(self.global_slope * (first + (last - first) * index / max(1, depth - 1)))


class _Looking(LayerEncoding):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor, Bias]) -> Bias:
        positions, slopes, cone = state
        return SumBias([DistanceBias(self.slope * slopes, positions), cone])


def directions(dims: int, fov: int) -> list[tuple[float, ...]]:
    """Unit vectors to look along, in the order in which heads take them.

    Images have the published sets: 4 axes (180), 4 diagonals and 4 axes (90), 8 odd multiples of 22.5 degrees (45).
    Otherwise the lattice directions, axes first, then always the one farthest from those before it. Each is followed
    by its opposite, so that few heads, too, look both ways.
    """
    if dims == 2 and fov == 45:
        turns = [math.radians(22.5 + 45 * i) for i in (0, 4, 2, 6, 1, 5, 3, 7)]
        return [(math.sin(t), math.cos(t)) for t in turns]
    lattice = np.array([c for c in itertools.product((0, 1, -1), repeat=dims) if any(c)], dtype=float)
    lattice /= np.linalg.norm(lattice, axis=1, keepdims=True)
    axes = np.stack([np.eye(dims), -np.eye(dims)], axis=1).reshape(-1, dims)  # each beside its opposite
    if fov == 180 or dims == 1:
        return [tuple(u) for u in axes]
    chosen = list(axes)
    while len(chosen) < min(len(lattice), 64):
        closeness = (lattice @ np.array(chosen).T).max(axis=1)
        farthest = lattice[closeness.argmin()]
        chosen += [farthest, -farthest]
    if dims == 2:  # published order: quadrants first
        chosen = chosen[4:] + chosen[:4]
    return [tuple(u) for u in chosen]


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(LookHere)
