"""Biases that do not depend on the query's content: distances (ALiBi), cones (LookHere) and tables."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, FormulaBias, PositionBias, Select, norm, round_to_steps
from ndformer.framework.tokens import Rows


class DistanceBias(FormulaBias):
    """A bias that decreases linearly with distance: -slope_h |r_j - r_i|."""

    term = "distance"

    def __init__(self, slopes: Tensor, positions: Tensor) -> None:
        super().__init__(positions)
        self.slopes = slopes  # (H,)

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        return -select(self.slopes) * norm(dr)

    def cut(self, rows: Rows) -> Bias:
        return DistanceBias(self.slopes, self.cut_positions(rows))


class ConeBias(FormulaBias):
    """A mask that is -inf where r_j - r_i is outside the cone of a head, given by its direction and cosine.

    Cones are closed up to rounding: keys on the boundary, such as diagonal neighbors on a grid, are inside.
    """

    term, excludes = "cone", True
    tolerance = 1e-5  # far below the angle between two grid directions up to |dr| = 1000

    def __init__(self, directions: Tensor, cosines: Tensor, positions: Tensor) -> None:
        super().__init__(positions)
        self.directions = [axis.contiguous() for axis in directions.unbind(-1)]  # P of (H,)
        self.cosines = cosines  # (H,); -1 masks nothing

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        along = sum((select(u) * d for u, d in zip(self.directions, dr)), torch.zeros_like(dr[0]))
        inside = along >= (select(self.cosines) - self.tolerance) * norm(dr)
        return torch.where(inside, 0.0, -torch.inf)

    def cut(self, rows: Rows) -> Bias:
        return ConeBias(torch.stack(self.directions, dim=-1), self.cosines, self.cut_positions(rows))


class TableBias(PositionBias):
    """A learned value per head and integer step of r_j - r_i, from one table per axis (summed) or one joint table.

    Differences are rounded, not positions, so that a common shift changes nothing, and clamped to +-max_steps.
    """

    term = "table"

    def __init__(self, tables: Sequence[Tensor], max_steps: Sequence[int], positions: Tensor) -> None:
        super().__init__(positions)
        self.tables = list(tables)  # P of (H, 2 max_step + 1), or one (H, product of these)
        self.max_steps = tuple(max_steps)

    def _indices(self, dr: Sequence[Tensor]) -> list[Tensor]:
        steps = [round_to_steps(d).clamp(-limit, limit).long() + limit for d, limit in zip(dr, self.max_steps)]
        if len(self.tables) == len(steps):
            return steps
        joint = steps[0]
        for step, limit in zip(steps[1:], self.max_steps[1:]):
            joint = joint * (2 * limit + 1) + step
        return [joint]

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        indices = self._indices([self.difference(p, b, i, j) for p in range(len(self.axes))])
        values = [table[h, index] for table, index in zip(self.tables, indices)]
        return sum(values[1:], values[0])

    def rows(self, lo: int, hi: int) -> Tensor:
        values = [table[:, index] for table, index in zip(self.tables, self._indices(self.differences(lo, hi)))]
        return sum(values[1:], values[0]).transpose(0, 1)  # (H, B, n, N) -> (B, H, n, N)

    def cut(self, rows: Rows) -> Bias:
        return TableBias(self.tables, self.max_steps, self.cut_positions(rows))
