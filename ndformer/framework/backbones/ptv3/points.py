"""The points of one stage of Point Transformer V3 with their voxels, curves and windows along the curves."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from ndformer.framework.sparse import Sites, reduce_segments
from ndformer.framework.sparse.segments import run_lengths
from ndformer.framework.tokens import Rows, Where


@dataclass(frozen=True, eq=False)
class Windows:
    """Attention windows: rows of consecutive points along one curve.

    The last window of a sample is filled with points of the window before it. A sample smaller than a window is one
    short window.
    """

    rows: Rows
    where: Where
    home: Tensor  # (N,) the slot whose output each point gets

    def cut(self, x: Tensor) -> Tensor:
        """Gather features (N, C) into rows (R, K, C); invalid slots (see `where`) contain arbitrary values."""
        return x.index_select(0, self.rows.index.flatten()).unflatten(0, self.rows.index.shape)

    def join(self, rows: Tensor) -> Tensor:
        """Return the features (N, C) of points from rows (R, K, C)."""
        return rows.flatten(0, 1).index_select(0, self.home)


@dataclass(frozen=True, eq=False)
class Counts:
    """The number of points per sample at a level and all coarser ones, on the device and on the host."""

    on_device: Tensor  # (levels, samples)
    on_host: list[list[int]]

    @classmethod
    def from_codes(cls, codes: Tensor, sample: Tensor, samples: int, levels: int) -> tuple[Counts, int]:
        """Count points from codes (N,) along a curve; return the counts and the number of occupied voxels.

        This is the only device synchronization: all sizes in the network follow from it.
        """
        sorted_codes, order = codes.sort()
        cells = torch.stack([_differ(sorted_codes >> 3 * level) for level in range(levels)])
        cells[0].fill_(1)  # points in the same voxel are not merged at the finest level
        on_device = cells.new_zeros(levels, samples).index_add_(1, sample[order], cells)
        *rows, occupied = torch.cat([on_device.flatten(), _differ(sorted_codes).sum()[None]]).tolist()
        return cls(on_device, [rows[i * samples : (i + 1) * samples] for i in range(levels)]), occupied

    def coarser(self) -> Counts:
        return Counts(self.on_device[1:], self.on_host[1:])


def _differ(values: Tensor) -> Tensor:
    """Return (N,): 1 where a value differs from the previous one, else 0."""
    return torch.nn.functional.pad((values[1:] != values[:-1]).long(), (1, 0), value=1)


class Level:
    """N points, sorted by sample, as serialized windows.

    positions (N, 3) are those of the data. places (N, 3) are the inputs of encodings, relative to the middle of each
    window if `centered`. codes (curves, N) order the points along each curve.
    """

    def __init__(
        self,
        sites: Sites,
        positions: Tensor,
        places: Tensor,
        codes: Tensor,
        counts: Counts,
        window: int,
        centered: bool,
    ) -> None:
        self.counts = counts
        self.sites, self.positions, self.places, self.codes, self.centered = sites, positions, places, codes, centered
        self.orders = codes.argsort(dim=1, stable=True)  # (curves, N)
        self.slots, self.valid, self.home = layout(counts.on_device[0], counts.on_host[0], window)
        widest = self.slots.shape[1]
        self.full = all(count >= widest for count in counts.on_host[0])  # no row has an empty slot
        self.cached: dict[int, Windows] = {}

    @cached_property
    def where(self) -> Where:
        """Return the positions of all points in one packed row, not cut into windows."""
        return Where(self.places[None], segment=self.sites.sample[None])

    def windows(self, curve: int) -> Windows:
        if curve not in self.cached:
            order = self.orders[curve]
            rows = Rows(order[self.slots], self.valid)
            places = rows.gather(self.places)  # (R, K, 3)
            if self.centered:  # shift by whole units, so that differences stay exact
                middle = places.sum(1, keepdim=True) / self.valid.sum(1)[:, None, None]
                places = places - middle.round()
            where = Where(places, valid=None if self.full else self.valid)
            self.cached[curve] = Windows(rows, where, torch.empty_like(self.home).scatter_(0, order, self.home))
        return self.cached[curve]

    def cells(self) -> Cells:
        """Group the points into cells of 2 x 2 x 2 voxels, in the order of the first curve."""
        order = self.orders[0]
        run, lengths = run_lengths(self.codes[0][order] >> 3, sum(self.counts.on_host[1]))
        return Cells(order, torch.empty_like(run).scatter_(0, order, run), lengths)

    def shuffled(self) -> Level:
        """Return the same points with the curves in random order."""
        level = copy.copy(self)
        curves = torch.randperm(len(self.codes)).tolist()
        level.codes, level.orders = (torch.stack([x[i] for i in curves]) for x in (self.codes, self.orders))
        level.cached = {}
        return level


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of points that are pooled together."""

    order: Tensor  # (N,) indices of points, sorted by cell
    cell: Tensor  # (N,) the cell of each point
    lengths: Tensor  # (M,) points per cell

    @property
    def first(self) -> Tensor:
        """Return the index (M,) of a point in each cell."""
        return self.order[self.lengths.cumsum(0) - self.lengths]

    def reduce(self, x: Tensor, how: Literal["mean", "max"]) -> Tensor:
        """Reduce features (N, C) of points to (M, C) of cells."""
        return reduce_segments(x.index_select(0, self.order), self.lengths, how)


def layout(counts: Tensor, host_counts: list[int], window: int) -> tuple[Tensor, Tensor, Tensor]:
    """Divide consecutive samples of `counts` points (`host_counts` on the host) into windows.

    Returns the point in each slot (R, K), which slots are valid (R, K), and the slot of each point (N,).
    """
    ends = counts.cumsum(0)
    each = (counts + window - 1) // window  # windows per sample
    rows = [(count + window - 1) // window for count in host_counts]
    sample = torch.repeat_interleave(each, output_size=sum(rows))  # (R,)
    number = torch.arange(sum(rows), device=counts.device) - (each.cumsum(0) - each)[sample]
    K = min(window, max(host_counts))
    slots = ((ends - counts)[sample] + number * window)[:, None] + torch.arange(K, device=counts.device)
    inside = slots < ends[sample][:, None]
    owner = torch.repeat_interleave(counts, output_size=sum(host_counts))  # (N,) the sample of each point
    place = torch.arange(sum(host_counts), device=counts.device) - (ends - counts)[owner]  # index within the sample
    home = ((each.cumsum(0) - each)[owner] + place // window) * K + place % window
    several = (each[sample] > 1)[:, None]
    slots = torch.where(inside, slots, torch.where(several, slots - window, 0))
    return slots, inside | several, home
