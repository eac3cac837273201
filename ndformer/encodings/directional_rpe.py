"""2D-RPE: attention falls with distance, at one rate for keys before the query and at another for keys behind it."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, PositionBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, slope_radii
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Rows, Where

START = {"left": 1.0, "right": 0.5}  # the first head's slope is 2^-start


@ENCODINGS.register_module()
class DirectionalRPE(PositionEncoding):
    """2D-RPE of ViTARC (Li 2024, eq. 12): -slope_h |r_j - r_i|_1, with one slope for keys that come before the query in
    raster order (those above, and those to the left in its row) and another for keys that come after it.

    Both slopes go down by 2^(-8 / heads) from head to head. Raster order and Manhattan distance are there in any number
    of dimensions, the first axis being the slowest. `preset='repo'`: slopes halve from head to head, however many there
    are, and `diagonals`, which the preset switches on and which needs two dimensions, makes distances to keys of other
    rows and columns to the right 2^0.25 times as long.
    """

    rotation_invariant = False
    scaled_positions = "centered"

    def __init__(
        self, *args: Any, diagonals: bool | None = None, preset: Literal["paper", "repo"] = "paper", **rest: Any
    ) -> None:
        super().__init__(*args, **rest)
        if preset not in ("paper", "repo"):
            raise ValueError(f"preset is 'paper' or 'repo', got {preset!r}")
        self.diagonals = preset == "repo" if diagonals is None else diagonals
        if self.diagonals and self.position_dims != 2:
            raise ValueError(
                f"diagonals are those of rows and columns, 2 position dimensions, got {self.position_dims}: "
                "set diagonals=False"
            )
        slopes = _halving if preset == "repo" else _published
        self.slopes = {side: Constant(slopes(self.heads, start)) for side, start in START.items()}

    @property
    def initial_radius(self) -> float | None:
        return 5 / min(self.slopes["left"].values)  # where a token weighs a hundredth

    def covers(self, span: Span) -> list[Coverage]:
        return [slope_radii(self.slopes["left"].values, span)]

    def tables(self, positions: Tensor, where: Where) -> Bias:
        left, right = (self.slopes[side](positions) for side in START)
        return DirectionalBias(left, right, self.diagonals, positions)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Given()


class _Given(LayerEncoding):
    """The same bias in every layer, made once."""

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias:
        return state


class DirectionalBias(PositionBias):
    """-slope_h |r_j - r_i|_1, the slope being the left one for keys that come first."""

    term = "distance"

    def __init__(self, left: Tensor, right: Tensor, diagonals: bool, positions: Tensor) -> None:
        super().__init__(positions)
        self.left, self.right, self.diagonals = left, right, diagonals  # (H,)

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        dr = [self.difference(p, b, i, j) for p in range(len(self.axes))]
        return -torch.where(_later(dr), self.right[h], self.left[h]) * self._distance(dr)

    def rows(self, lo: int, hi: int) -> Tensor:
        dr = [d[:, None] for d in self.differences(lo, hi)]  # P of (B or 1, 1, n, N)
        left, right = self.left[:, None, None], self.right[:, None, None]
        return -torch.where(_later(dr), right, left) * self._distance(dr)

    def _distance(self, dr: Sequence[Tensor]) -> Tensor:
        total = sum((d.abs() for d in dr[1:]), dr[0].abs())
        if self.diagonals:
            total = torch.where((dr[0] != 0) & (dr[1] > 0), 2**0.25 * total, total)
        return total

    def cut(self, rows: Rows) -> Bias:
        return DirectionalBias(self.left, self.right, self.diagonals, self.cut_positions(rows))


def _later(dr: Sequence[Tensor]) -> Tensor:
    """Whether the key comes after the query in raster order: at the first axis along which they differ."""
    later = dr[-1] > 0
    for d in reversed(dr[:-1]):
        later = (d > 0) | ((d == 0) & later)
    return later


def _published(heads: int, start: float) -> list[float]:
    return [2 ** (-start - 8 * h / heads) for h in range(heads)]


def _halving(heads: int, start: float) -> list[float]:
    """As ALiBi's for a number that is no power of two: those of the power below, then every other one."""
    below = 1 << (heads.bit_length() - 1)
    return [2 ** (-start - h) for h in [*range(below), *range(0, 2 * (heads - below), 2)]]


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(DirectionalRPE)
