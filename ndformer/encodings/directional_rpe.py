"""2D-RPE of ViTARC: a linear bias on distance with one slope for keys before the query and another for later keys."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ndformer.encodings.alibi import SharedBiasLayer
from ndformer.framework.bias.base import ANTIPODE, Bias, FormulaBias, Select
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, slope_radii
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Rows, Where

FIRST_EXPONENT = {"left": 1.0, "right": 0.5}  # the slope of the first head is 2^-exponent


@ENCODINGS.register_module()
class DirectionalRPE(PositionEncoding):
    """A bias -slope_h |r_j - r_i|_1 with a left and a right slope per head (2D-RPE of ViTARC, Li 2024, eq. 12).

    The left slope is for keys before the query in raster order (above it, or to the left in its row), the right slope
    for keys after it. Both decrease by a factor of 2^(-8 / heads) from head to head. Raster order and Manhattan
    distance are defined in any number of dimensions, with the first axis as the slowest. `preset='repo'`: slopes halve
    from head to head, and `diagonals` is on, which needs two dimensions: distances to keys in other rows and in columns
    to the right are multiplied by 2^0.25. On a circle, before and after are the short way round. Nothing is learned.

    Paper: arXiv:2410.06405.
    """

    rotation_invariant = False
    scaled_positions = "centered"
    circular_axes = True

    def __init__(
        self, *args: Any, diagonals: bool | None = None, preset: Literal["paper", "repo"] = "paper", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.diagonals = preset == "repo" if diagonals is None else diagonals
        if self.diagonals and self.position_dims != 2:
            raise ValueError(
                f"diagonals=True needs 2 position dimensions, got {self.position_dims}. Set diagonals=False"
            )
        slopes = _repo_slopes if preset == "repo" else _paper_slopes
        self.slopes = {side: Constant(slopes(self.heads, first)) for side, first in FIRST_EXPONENT.items()}

    @property
    def initial_radius(self) -> float | None:
        return 5 / min(self.slopes["left"].values)  # there a token has 1/100 of the weight

    def covers(self, span: Span) -> list[Coverage]:
        return [slope_radii(self.slopes["left"].values, span)]

    def tables(self, positions: Tensor, where: Where) -> Bias:
        left, right = (self.slopes[side](positions) for side in FIRST_EXPONENT)
        return DirectionalBias(left, right, self.diagonals, positions)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes(SharedBiasLayer())


class DirectionalBias(FormulaBias):
    """A bias -slope_h |r_j - r_i|_1 with the left slope for keys before the query and the right one for others."""

    term = "distance"

    def __init__(self, left: Tensor, right: Tensor, diagonals: bool, positions: Tensor) -> None:
        super().__init__(positions)
        self.left, self.right, self.diagonals = left, right, diagonals  # (H,)

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        dr = self._without_rounding(dr)
        distance = sum((d.abs() for d in dr[1:]), dr[0].abs())
        if self.diagonals:
            distance = torch.where((dr[0] != 0) & (dr[1] > 0), 2**0.25 * distance, distance)
        return -torch.where(_is_later(dr), select(self.right), select(self.left)) * distance

    def _without_rounding(self, dr: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return differences without the rounding of whole turns, which would order tokens of the same row."""
        if self.lengths is None:
            return dr
        return [d if L is None else torch.where(d.abs() > ANTIPODE * L, d, 0.0) for d, L in zip(dr, self.lengths)]

    def cut(self, rows: Rows) -> Bias:
        return DirectionalBias(self.left, self.right, self.diagonals, self.cut_positions(rows))


def _is_later(dr: Sequence[Tensor]) -> Tensor:
    """Return whether the key comes after the query in raster order: the first axis on which they differ decides."""
    is_later = dr[-1] > 0
    for d in reversed(dr[:-1]):
        is_later = (d > 0) | ((d == 0) & is_later)
    return is_later


def _paper_slopes(heads: int, first: float) -> list[float]:
    return [2 ** (-first - 8 * h / heads) for h in range(heads)]


def _repo_slopes(heads: int, first: float) -> list[float]:
    """Return slopes that halve; a number of heads that is no power of two has every other one again, as in ALiBi."""
    lower = 1 << (heads.bit_length() - 1)
    return [2 ** (-first - h) for h in [*range(lower), *range(0, 2 * (heads - lower), 2)]]
