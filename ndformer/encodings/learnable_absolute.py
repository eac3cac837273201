"""LearnableAbsolute: a learned embedding for each cell of a grid, added to the tokens (as in ViT)."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.embedding import AbsoluteEncoding
from ndformer.framework.encoding.base import ints_per_axis, short
from ndformer.framework.encoding.coverage import Coverage, Span, cells
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Ascending, FewOrNone, Finite, Side
from ndformer.framework.tokens import Where

Interval = Annotated[tuple[Finite, Finite], Ascending()]
MAX_ENTRIES = 10**6


@ENCODINGS.register_module()
class LearnableAbsolute(AbsoluteEncoding):
    """A learned absolute position embedding: a vector for each cell of a grid, added to the tokens (Dosovitskiy 2021).

    `grid`, one size for all axes or one per axis, is that of training. For a grid of another size the table is
    resampled: bicubic with antialiasing, axis by axis. With `extent`, (lowest, highest) for all axes or for each, in
    scaled units, tokens may be anywhere: the table is interpolated linearly along each axis, with the first cell at the
    lowest coordinate and the last at the highest; positions outside are clamped to the border.

    The first `class_entries` tokens before a grid have entries too, if they have no position. With `extent`, tokens
    without a position share one entry, as they have no order.

    Weights, shared by all layers: `table` (class entries first, dim), as in timm.

    Paper: arXiv:2010.11929 (ViT).
    """

    needs_grid = True
    instead = "an extent, as in LearnableAbsolute(extent=(0, 32)), PaPE or ALiBi"
    line_reason = "its table has two ends, whose vectors have nothing in common"
    no_weight_decay = ("table",)

    def __init__(
        self,
        *args: Any,
        grid: Side | Sequence[Side] = 14,
        extent: Interval | Sequence[Interval] | None = None,
        class_entries: FewOrNone = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        dims = self.position_dims
        self.grid = ints_per_axis(grid, dims, "grid")
        if math.prod(self.grid) > MAX_ENTRIES:
            raise ValueError(
                f"a table of {' x '.join(map(str, self.grid))} entries has more than {MAX_ENTRIES}: take a smaller "
                "grid, which is resampled, or Sincos"
            )
        self.extent = None if extent is None else _intervals(extent, dims)
        if extent is not None and class_entries > 1:
            raise ValueError(
                f"class_entries is 0 or 1 with an extent, got {class_entries}. Tokens without a position share "
                "one entry"
            )
        self.needs_grid = extent is None
        self.bounded = extent is not None
        self.embeds_unplaced = class_entries > 0
        self.class_entries = class_entries
        self.table = nn.Parameter(torch.empty(class_entries + math.prod(self.grid), self.dim))
        nn.init.trunc_normal_(self.table, std=0.02)

    def covers(self, span: Span) -> list[Coverage]:
        reports = []
        for p, count in enumerate(self.grid):
            if self.extent is None:
                size = round(span.extent[p] / span.step[p]) + 1
                text = f"{count} cells along axis {p} are resampled to {size}: grid={size}"
                reports.append(cells(p, count, 0, count - 1, "")._replace(warnings=() if size == count else (text,)))
            else:
                low, high = self.extent[p]
                first, last = ((r - low) / (high - low) * (count - 1) for r in (span.low[p], span.high[p]))
                hint = f"extent=({short(span.low[p]):g}, {short(span.high[p]):g})"
                reports.append(cells(p, count, first, last, hint))
        return reports

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        table = self.table.to(where.positions.dtype)
        class_table, cells = table[: self.class_entries], table[self.class_entries :]
        if where.grid is None or self.extent is not None:
            return self._interpolated(class_table, cells, positions, where)
        cells = resample(cells.view(*self.grid, self.dim), where.grid).flatten(0, -2)  # (prod(grid), dim)
        prefix = positions.shape[1] - cells.shape[0]  # no len(): an exported graph would have it as a constant
        if where.placed is None:
            return F.pad(cells, (0, 0, prefix, 0))[None]
        class_table = F.pad(class_table[:prefix], (0, 0, 0, max(0, prefix - len(class_table))))  # (prefix, dim)
        class_table = class_table.masked_fill(where.placed[:, :prefix, None], 0)
        return torch.cat([class_table, cells.expand(len(class_table), -1, -1)], dim=1)

    def _interpolated(self, class_table: Tensor, cells: Tensor, positions: Tensor, where: Where) -> Tensor:
        assert self.extent is not None
        embedding = interpolate(cells, self.grid, self.extent, positions)
        if where.valid is not None:
            embedding = embedding.masked_fill(~where.valid[..., None], 0)
        if where.placed is None:
            return embedding
        unplaced = ~where.placed if where.valid is None else where.valid & ~where.placed
        class_embedding = class_table[0] if len(class_table) else torch.zeros_like(cells[0])
        return torch.where(unplaced[..., None], class_embedding, embedding)


def resample(cells: Tensor, sizes: Sequence[int]) -> Tensor:
    """Resample a table (n_1, ..., n_P, dim) to other sizes: bicubic with antialiasing, in 2-D as F.interpolate."""
    for axis, (old, new) in enumerate(zip(cells.shape, sizes)):
        if torch.compiler.is_exporting() or old != new:  # an exported graph serves all sizes
            cells = torch.einsum("no,o...->n...", _bicubic(old, new, cells), cells.movedim(axis, 0)).movedim(0, axis)
    return cells


def _bicubic(old: int, new: int, like: Tensor) -> Tensor:
    """Return the weights (new, old) of old cells in new ones: Keys' kernel, a = -0.5, scaled to the larger cell."""
    step = like.new_full((), old).div(like.new_full((), new))  # tensors: a graph cannot compare its sizes
    centers = (torch.arange(new, dtype=like.dtype, device=like.device) + 0.5) * step
    cells = torch.arange(old, dtype=like.dtype, device=like.device) + 0.5
    d = (cells - centers[:, None]).abs() / step.clamp(min=1)
    inner, outer = (1.5 * d - 2.5) * d * d + 1, ((-0.5 * d + 2.5) * d - 4) * d + 2
    weights = torch.where(d < 1, inner, torch.where(d < 2, outer, 0.0))
    return weights / weights.sum(1, keepdim=True)


def interpolate(cells: Tensor, grid: Sequence[int], extent: Sequence[tuple[float, float]], r: Tensor) -> Tensor:
    """Interpolate a table (cells, dim) at positions (B, N, P): multilinear, from the 2^P cells around each position."""
    index = torch.zeros(*r.shape[:2], 1, dtype=torch.int64, device=r.device)  # (B, N, corners so far)
    weight = torch.ones_like(r[..., :1], dtype=cells.dtype)
    for p, (size, (low, high)) in enumerate(zip(grid, extent)):
        coordinate = ((r[..., p, None] - low) * ((size - 1) / (high - low))).clamp(0, size - 1)
        first = coordinate.detach().floor().clamp(max=max(0, size - 2))
        share, first = (coordinate - first).to(cells.dtype), first.long()
        sides = torch.stack([first, (first + 1).clamp(max=size - 1)], dim=-1)  # (B, N, 1, 2)
        index = (index[..., None] * size + sides).flatten(-2)
        weight = (weight[..., None] * torch.stack([1 - share, share], dim=-1)).flatten(-2)
    corners = index.shape[-1]
    sums = F.embedding_bag(index.view(-1, corners), cells, per_sample_weights=weight.view(-1, corners), mode="sum")
    return sums.view(*r.shape[:2], -1)


def _intervals(extent: Any, dims: int) -> tuple[tuple[float, float], ...]:
    intervals = tuple(extent) if all(isinstance(pair, Sequence) for pair in extent) else (extent,) * dims
    if len(intervals) != dims or any(low >= high for low, high in intervals):
        raise ValueError(
            f"extent is (lowest, highest), the same or one for each position dimension ({dims}), lowest below highest, "
            f"got {extent}"
        )
    return intervals


ENCODINGS.synonyms |= dict.fromkeys(("ape", "learned", "learnable", "absolute"), "LearnableAbsolute")
