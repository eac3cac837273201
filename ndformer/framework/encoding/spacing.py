"""Measured distances between tokens, to set the unit of length and the initial radius of an encoding.

spacing = Spacing.measure([where], factors=(1.0, 1.0))
spacing.unit, spacing.nearest, spacing.extent
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ndformer.framework.tokens import Where

MAX_TOKENS = 512  # limit of tokens per row whose nearest neighbors are looked for, and of rows
MAX_PAIRS = 2**22  # distances in memory at a time


class Spacing(NamedTuple):
    """The unit of length, nearest-neighbor distance and extent of token positions."""

    unit: tuple[float, ...]  # per axis: the grid step; free tokens: axes of equal spread, `nearest` about 1
    nearest: float  # median distance to the nearest neighbor at a different position
    extent: float  # mean extent of a row along its longest axis

    @classmethod
    def measure(cls, wheres: Sequence[Where], factors: tuple[float, ...]) -> Spacing | None:
        """Measure all rows, with positions times `factors`; None if no row has two different positions."""
        rows = [r * r.new_tensor(factors) for where in wheres for r in placed_rows(where)]
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
    """Yield the positions of placed tokens in float64, for each row or packed sample."""
    if where.segment is not None and where.cut is None:  # on a GPU: the values that separate the samples are not read
        where = where.to("cpu")
    if where.cut is not None:
        for _, part in where.cut:
            yield from placed_rows(part)
        return
    for row, r in enumerate(where.positions[:MAX_TOKENS].detach().cpu().double()):
        real = where.real
        yield r if real is None else r[real[row if len(real) > 1 else 0].cpu()]


def _steps(where: Where, factors: tuple[float, ...]) -> Tensor | None:
    """Return the step of a grid per axis, 1 for an axis with one cell; None without a grid."""
    if where.grid is None:
        return None
    cells = where.positions[0].detach().cpu().double() * torch.tensor(factors, dtype=torch.float64)
    cells = cells[-torch.tensor(where.grid).prod() :].view(*where.grid, -1)
    steps = [cells[..., axis].diff(dim=axis).abs() for axis in range(len(where.grid))]
    return torch.stack([s.mean() if s.numel() and s.any() else s.new_ones(()) for s in steps])


def _nearest(rows: Sequence[Tensor]) -> float:
    exact = "donot_use_mm_for_euclid_dist"  # otherwise distances from a token to itself are not 0
    queries = [(part, r) for r in rows[:32] for part in r[:: -(-len(r) // MAX_TOKENS)].split(1 + MAX_PAIRS // len(r))]
    distances = (torch.cdist(part, r, compute_mode=exact) for part, r in queries)
    nearest = torch.cat([torch.where(d > 0, d, torch.inf).amin(1) for d in distances])
    return nearest[nearest.isfinite()].median().item()
