"""Windows of a grid: tokens that attend to each other in the blocks of ViTDet (Li 2022) that are not global.

windows = grid_windows(tokens.where, 14, len(x))      # one packed row, segment = number of the window
y = windows.join(attention(windows.cut(x), windows.where, prepare(encoding, windows.where)))
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.packing import grid_cells
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Where


@dataclass(frozen=True, eq=False)
class GridWindows:
    """The tokens of all samples as one packed row, sorted by window; windows at the far edges are smaller.

    In a graph for export rows stay rows, and one order serves all, for grids of any size.
    """

    where: Where  # segment: the number of the window, grids: its shape
    order: Tensor  # (T,) the flat tokens, or (N,) those of each row, in the order of windows
    place: Tensor  # of each token in that order
    by_row: bool = False

    def cut(self, x: Tensor) -> Tensor:
        """Return features (B, N, C) in the order of windows, (1, T, C)."""
        return x.index_select(1, self.order) if self.by_row else x.flatten(0, 1).index_select(0, self.order)[None]

    def join(self, row: Tensor, shape: torch.Size) -> Tensor:
        """Return features in the order of windows as (B, N, C), the inverse of `cut`."""
        return row.index_select(1, self.place) if self.by_row else row[0].index_select(0, self.place).view(shape)


def grid_windows(where: Where, size: int, rows: int) -> GridWindows:
    """Return the windows of `size` tokens per axis, for `rows` on one grid or packed rows of grids."""
    if torch.compiler.is_exporting() and where.grid is not None:
        number = _numbers(where.grid, size, where.positions)
        order = (number * number.shape[0] + torch.arange(number.shape[0], device=number.device)).argsort()
        labels = {name: t[:, order] for name, t in _labels(where).items()}
        inside = Where(where.positions[:, order], segment=number[None, order], **labels)
        return GridWindows(inside, order, order.argsort(), True)
    total = rows * where.positions.shape[1]
    grids = where.grids if where.segment is not None else None if where.grid is None else (where.grid,) * rows
    if grids is None or sum(map(math.prod, grids)) != total:
        raise ValueError(
            "window expects the tokens of grids alone, in rows without padding. Set class_token=False, registers=0, "
            "drop_tokens=0 and packed=True of the image adapter, or window=None of the backbone"
        )
    place, _, number = grid_cells(grids, where.positions.device)  # (T, P), (T,)
    most = max(-(-side // size) for grid in grids for side in grid)
    key = number
    for axis in (place // size).unbind(1):
        key = key * most + axis
    order = key.argsort(stable=True)  # row-major within a window
    shapes = tuple(shape for grid in grids for shape in itertools.product(*(_sides(side, size) for side in grid)))
    counts = tensor_like([math.prod(shape) for shape in shapes], order)
    segment = torch.arange(len(shapes), device=order.device).repeat_interleave(counts, output_size=total)

    def sort(t: Tensor) -> Tensor:
        return t.expand(rows, *t.shape[1:]).flatten(0, 1)[order][None]

    labels: dict[str, Any] = {name: sort(t) for name, t in _labels(where).items()}
    inside = Where(sort(where.positions), segment=segment[None], grids=shapes, **labels)
    return GridWindows(inside, order, order.argsort())


def _labels(where: Where) -> dict[str, Any]:
    fields = dict(placed=where.placed, objects=where.objects, cameras=where.cameras)
    return {name: t for name, t in fields.items() if t is not None}


def _sides(side: int, size: int) -> list[int]:
    """Return the sides of the windows along an axis."""
    return [size] * (side // size) + ([side % size] if side % size else [])


def _numbers(grid: tuple[int, ...], size: int, like: Tensor) -> Tensor:
    """Return the window (N,) of each token of a grid, whose sides may be symbols of a graph."""
    numbers = torch.zeros((1,) * len(grid), dtype=torch.int64, device=like.device)
    for axis, side in enumerate(grid):
        shape = [-1 if i == axis else 1 for i in range(len(grid))]
        numbers = numbers * (side // size + 1) + (torch.arange(side, device=like.device) // size).view(shape)
    return numbers.flatten()
