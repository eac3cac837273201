"""How far apart tokens stand, measured: what an encoding's unit of length and its first reach can be set by.

spacing = Spacing.of([where], factors=(1.0, 1.0))
spacing.unit, spacing.nearest, spacing.extent
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ndformer.framework.tokens import Where

MOST = 512  # tokens of a row, and rows, that are looked at


class Spacing(NamedTuple):
    unit: tuple[float, ...]  # per axis: a grid's step; of free tokens what makes their axes alike and `nearest` about 1
    nearest: float  # from a token to its nearest neighbour at another place, the median
    extent: float  # of a row, along its longest axis

    @classmethod
    def of(cls, wheres: Sequence[Where], factors: tuple[float, ...]) -> Spacing | None:
        """Over all rows, with positions times `factors`; None where no row has two tokens at different places."""
        rows = [r * r.new_tensor(factors) for where in wheres for r in _few(where)]
        rows = [r for r in rows if len(r) > 1 and (r != r[0]).any()]
        if not rows:
            return None
        extents = torch.stack([r.amax(0) - r.amin(0) for r in rows]).mean(0)
        grid = _steps(wheres[0], factors)
        if grid is None:
            spreads = torch.stack([r.std(0) for r in rows]).mean(0)
            spreads = torch.where(spreads > 0, spreads, 1.0)
            grid = spreads * _nearest([r / spreads for r in rows])
        return cls(tuple(grid.tolist()), _nearest(rows), extents.max().item())


def placed_rows(where: Where) -> Iterator[Tensor]:
    """The positions of the tokens that have one, in float64: of each row, or of each sample of packed ones."""
    if where.cut is not None:
        for _, one in where.cut:
            yield from placed_rows(one)
        return
    for row, r in enumerate(where.positions[:MOST].detach().cpu().double()):
        real = where.real
        yield r if real is None else r[real[row if len(real) > 1 else 0].cpu()]


def _few(where: Where) -> Iterator[Tensor]:
    for r in placed_rows(where):
        yield r[:: -(-len(r) // MOST)] if len(r) > MOST and where.grid is None else r[-MOST:]


def _steps(where: Where, factors: tuple[float, ...]) -> Tensor | None:
    """Per axis, from one cell of a grid to the next; 1 where it has but one."""
    if where.grid is None:
        return None
    cells = where.positions[0].detach().cpu().double() * torch.tensor(factors, dtype=torch.float64)
    cells = cells[-torch.tensor(where.grid).prod() :].view(*where.grid, -1)
    steps = [cells[..., axis].diff(dim=axis).abs() for axis in range(len(where.grid))]
    return torch.stack([s.mean() if s.numel() and s.any() else s.new_ones(()) for s in steps])


def _nearest(rows: Sequence[Tensor]) -> float:
    exact = "donot_use_mm_for_euclid_dist"  # else a token is a hair away from itself
    distances = [torch.cdist(r, r, compute_mode=exact) for r in rows[:32]]
    nearest = torch.cat([torch.where(d > 0, d, torch.inf).amin(1) for d in distances])
    return nearest[nearest.isfinite()].median().item()
