"""A learned vector for each place."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.base import short
from ndformer.framework.encoding.coverage import Coverage, Span, cells
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Ascending, FewOrNone, Finite, Side
from ndformer.framework.tokens import Where

Interval = Annotated[tuple[Finite, Finite], Ascending()]
MOST = 10**6  # entries


@ENCODINGS.register_module()
class LearnableAbsolute(PositionEncoding):
    """A learned absolute embedding: a vector for each cell of a grid, added to the tokens once (Dosovitskiy 2021).

    `grid`, one size for all axes or one per axis, is that of training. Tokens on a grid of another size get the table
    resampled: bicubic with antialiasing, axis by axis. With an `extent`, (lowest, highest) for all axes or for each, in
    scaled units, tokens stand anywhere: their places are looked up between the cells around them (multilinear), the
    first cell at the lowest place and the last at the highest; those outside are taken to its border.

    The first `class_entries` tokens before a grid have entries too, if they have no place of their own. Free tokens
    without a place, which no order tells apart, share one. Weights: `table` (class entries first, dim), as in timm.
    """

    needs_grid = True
    instead = "an extent, as in LearnableAbsolute(extent=(0, 32)), PaPE or ALiBi"
    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"
    no_weight_decay = ("table",)

    def __init__(
        self,
        *args: Any,
        grid: Side | Sequence[Side] = 14,
        extent: Interval | Sequence[Interval] | None = None,
        class_entries: FewOrNone = 1,
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        dims = self.position_dims
        self.grid = (grid,) * dims if isinstance(grid, int) else tuple(grid)
        if len(self.grid) != dims:
            raise ValueError(f"grid is one size or one per position dimension ({dims}), got {grid}")
        if math.prod(self.grid) > MOST:
            raise ValueError(
                f"a table of {' x '.join(map(str, self.grid))} entries has more than {MOST}: take a smaller grid, "
                "which is resampled, or Sincos"
            )
        self.extent = None if extent is None else _intervals(extent, dims)
        if extent is not None and class_entries > 1:
            raise ValueError(
                f"free tokens without a place share one entry: class_entries is 0 or 1, got {class_entries}"
            )
        self.needs_grid = extent is None
        self.bounded = extent is not None
        self.embeds_unplaced = class_entries > 0
        self.class_entries = class_entries
        self.table = nn.Parameter(torch.empty(class_entries + math.prod(self.grid), self.dim))
        nn.init.trunc_normal_(self.table, std=0.02)

    def covers(self, span: Span) -> list[Coverage]:
        found = []
        for p, count in enumerate(self.grid):
            if self.extent is None:
                here = round(span.extent[p] / span.step[p]) + 1
                said = () if here == count else (f"{count} cells along axis {p} are resampled to {here}: grid={here}",)
                found.append(cells(p, count, 0, count - 1, "")._replace(warnings=said))
            else:
                low, high = self.extent[p]
                first, last = ((at - low) / (high - low) * (count - 1) for at in (span.low[p], span.high[p]))
                hint = f"extent=({short(span.low[p]):g}, {short(span.high[p]):g})"
                found.append(cells(p, count, first, last, hint))
        return found

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        table = self.table.to(where.positions.dtype)
        own, cells = table[: self.class_entries], table[self.class_entries :]
        if where.grid is None or self.extent is not None:
            return self._free(own, cells, positions, where)
        cells = resampled(cells.view(*self.grid, self.dim), where.grid).flatten(0, -2)  # (prod(grid), dim)
        before = positions.shape[1] - cells.shape[0]  # no len(): in a graph that is a number
        if where.placed is None:
            return F.pad(cells, (0, 0, before, 0))[None]
        own = F.pad(own[:before], (0, 0, 0, max(0, before - len(own))))  # (before, dim)
        own = own.masked_fill(where.placed[:, :before, None], 0)
        return torch.cat([own, cells.expand(len(own), -1, -1)], dim=1)

    def _free(self, own: Tensor, cells: Tensor, positions: Tensor, where: Where) -> Tensor:
        assert self.extent is not None
        found = between(cells, self.grid, self.extent, positions)
        if where.valid is not None:
            found = found.masked_fill(~where.valid[..., None], 0)
        if where.placed is None:
            return found
        nowhere = ~where.placed if where.valid is None else where.valid & ~where.placed
        code = own[0] if len(own) else torch.zeros_like(cells[0])
        return torch.where(nowhere[..., None], code, found)

    def embed(self, x: Tensor, state: Tensor) -> Tensor:
        return x + state.to(x.dtype)


def resampled(cells: Tensor, sizes: Sequence[int]) -> Tensor:
    """(n_1, ..., n_P, dim) at other sizes: bicubic with antialiasing, which is F.interpolate's in two dimensions."""
    for axis, (old, new) in enumerate(zip(cells.shape, sizes)):
        if torch.compiler.is_exporting() or old != new:  # a graph is of any size
            cells = torch.einsum("no,o...->n...", _bicubic(old, new, cells), cells.movedim(axis, 0)).movedim(0, axis)
    return cells


def _bicubic(old: int, new: int, like: Tensor) -> Tensor:
    """(new, old): how much each old cell gives to a new one. Keys' kernel with a = -0.5, as wide as a new cell is."""
    step = like.new_full((), old).div(like.new_full((), new))  # tensors: in a graph no number may be compared
    centres = (torch.arange(new, dtype=like.dtype, device=like.device) + 0.5) * step
    cells = torch.arange(old, dtype=like.dtype, device=like.device) + 0.5
    d = (cells - centres[:, None]).abs() / step.clamp(min=1)
    near, far = (1.5 * d - 2.5) * d * d + 1, ((-0.5 * d + 2.5) * d - 4) * d + 2
    weights = torch.where(d < 1, near, torch.where(d < 2, far, 0.0))
    return weights / weights.sum(1, keepdim=True)


def between(cells: Tensor, grid: Sequence[int], extent: Sequence[tuple[float, float]], r: Tensor) -> Tensor:
    """(cells, dim) at places (B, N, P): the mean of the 2^P cells around each, nearer ones weighing more."""
    index = torch.zeros(*r.shape[:2], 1, dtype=torch.int64, device=r.device)  # (B, N, corners so far)
    weight = torch.ones_like(r[..., :1], dtype=cells.dtype)
    for p, (size, (low, high)) in enumerate(zip(grid, extent)):
        at = ((r[..., p, None] - low) * ((size - 1) / (high - low))).clamp(0, size - 1)
        first = at.detach().floor().clamp(max=max(0, size - 2))
        share, first = (at - first).to(cells.dtype), first.long()
        sides = torch.stack([first, (first + 1).clamp(max=size - 1)], dim=-1)  # (B, N, 1, 2)
        index = (index[..., None] * size + sides).flatten(-2)
        weight = (weight[..., None] * torch.stack([1 - share, share], dim=-1)).flatten(-2)
    corners = index.shape[-1]
    found = F.embedding_bag(index.view(-1, corners), cells, per_sample_weights=weight.view(-1, corners), mode="sum")
    return found.view(*r.shape[:2], -1)


def _intervals(extent: Any, dims: int) -> tuple[tuple[float, float], ...]:
    intervals = tuple(extent) if all(isinstance(one, Sequence) for one in extent) else (extent,) * dims
    if len(intervals) != dims or any(low >= high for low, high in intervals):
        raise ValueError(
            f"extent is (lowest, highest), the same or one for each position dimension ({dims}), lowest below highest, "
            f"got {extent}"
        )
    return intervals


ENCODINGS.synonyms |= dict.fromkeys(("ape", "learned", "learnable", "absolute"), "LearnableAbsolute")


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(LearnableAbsolute)
