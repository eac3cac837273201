"""LookHere: ALiBi with a field of view per head; keys outside of it are masked (Fuller 2024).

The published masks are cones around lattice directions. Here they are computed from positions, with one dot product per
pair and no stored N x N mask, for images of any size and shape and for any number of dimensions.
"""

import itertools
import math
from typing import Any, Literal

import numpy as np
from torch import Tensor

from ndformer.framework.bias.base import Bias, SumBias
from ndformer.framework.bias.pointwise import ConeBias, DistanceBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import Preset, centered
from ndformer.framework.encoding.coverage import Coverage, Span, slope_radii
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Positive
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class LookHere(PositionEncoding):
    """A bias -global_slope layer_slope slope_h |dr| for keys in the field of view of head h, -inf for others.

    `fov` is the angle of the field of view: 180 (half planes), 90 (quadrants around the diagonals, then around the
    axes) or 45 degrees. Four of twelve heads have no field of view and see all keys, a third of the heads where there
    are fewer than twelve. Layer slopes decrease from 1.5 in the first block to 0.5 in the last. `preset='pape_repo'`:
    1.5 in all layers, and a `global_slope` of 2. Nothing is learned (Fuller 2024).

    Paper: arXiv:2405.13985.
    """

    rotation_invariant = False
    circular_axes = True
    scaled_positions = "float64"  # a key on the border of a cone stays inside it

    def __init__(
        self,
        *args: Any,
        fov: Literal[180, 90, 45] = 90,
        global_slope: Positive | None = None,
        preset: Preset = "original",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        repo = preset == "pape_repo"
        self.global_slope = global_slope if global_slope is not None else 2.0 if repo else 1.0
        self.layer_slopes = (1.5, 1.5) if repo else (1.5, 0.5)
        heads, dims = self.heads, self.position_dims
        undirected = heads // 3 if heads < 12 else heads // 12 * 4  # heads that see all keys
        directions = np.array(view_directions(dims, fov))  # (n, P)
        directed = np.arange(heads - undirected)
        self.directions = [*directions[directed % len(directions)].tolist(), *[[0.0] * dims] * undirected]  # (H, P)
        self.cosines = [math.cos(math.radians(fov / 2))] * len(directed) + [-1.0] * undirected
        # heads that repeat a direction have half the slope of those before
        slopes = [2.0 ** -(1 + i // len(directions)) for i in range(len(directed))]
        self.slopes = slopes + [4.0 ** -(1 + i % 4) for i in range(undirected)]
        self.constants = [Constant(values) for values in (self.directions, self.cosines, self.slopes)]

    @property
    def initial_radius(self) -> float | None:
        return 5 / (self.global_slope * min(self.layer_slopes) * min(self.slopes))  # there a token has 1/100 the weight

    def covers(self, span: Span) -> list[Coverage]:
        return [slope_radii([self.global_slope * min(self.layer_slopes) * slope for slope in self.slopes], span)]

    def tables(self, positions: Tensor, where: Where) -> tuple[Tensor, Tensor, Bias]:
        directions, cosines, slopes = (constant(positions) for constant in self.constants)
        cone = ConeBias(directions, cosines, positions)
        dtype = where.positions.dtype
        if positions.dtype != dtype:
            positions, slopes = centered(positions, where).to(dtype), slopes.to(dtype)
        return positions, slopes, cone

    def layer(self, index: int, depth: int) -> LayerEncoding:
        first, last = self.layer_slopes
        return self.on_axes(_ConeLayer(self.global_slope * (first + (last - first) * index / max(1, depth - 1))))


class _ConeLayer(LayerEncoding):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor, Bias]) -> Bias:
        positions, slopes, cone = state
        return SumBias([DistanceBias(self.slope * slopes, positions), cone])


def view_directions(dims: int, fov: int) -> list[tuple[float, ...]]:
    """Return the centers of the fields of view as unit vectors, in the order of the heads.

    Images have the published sets: 4 axes (180), 4 diagonals and 4 axes (90), 8 odd multiples of 22.5 degrees (45).
    Other dimensions have lattice directions, axes first, then always the one farthest from those before it. Each is
    followed by its opposite, so that a few heads cover both.
    """
    if dims == 2 and fov == 45:
        angles = [math.radians(22.5 + 45 * i) for i in (0, 4, 2, 6, 1, 5, 3, 7)]
        return [(math.sin(t), math.cos(t)) for t in angles]
    lattice = np.array([c for c in itertools.product((0, 1, -1), repeat=dims) if any(c)], dtype=float)
    lattice /= np.linalg.norm(lattice, axis=1, keepdims=True)
    axes = np.stack([np.eye(dims), -np.eye(dims)], axis=1).reshape(-1, dims)  # each followed by its opposite
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
