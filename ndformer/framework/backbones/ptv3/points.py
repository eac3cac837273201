"""The points of one stage of Point Transformer V3: their voxels, curves through them, and windows along the curves."""

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
    """Rows of neighbours along one curve. A sample's last window borrows what it lacks from the one before, as context;
    a sample smaller than a window is one short window."""

    rows: Rows
    where: Where
    home: Tensor  # (N,) the slot of each point that is its own

    def cut(self, x: Tensor) -> Tensor:
        """(N, C) -> (R, K, C); empty slots hold anything, `where` says which they are."""
        return x.index_select(0, self.rows.index.flatten()).unflatten(0, self.rows.index.shape)

    def join(self, rows: Tensor) -> Tensor:
        """(R, K, C) -> (N, C)."""
        return rows.flatten(0, 1).index_select(0, self.home)


@dataclass(frozen=True, eq=False)
class Counts:
    """How many points the samples have at a level and at all coarser ones: on the device, and as the host knows it."""

    there: Tensor  # (levels, samples)
    here: list[list[int]]

    @classmethod
    def of(cls, codes: Tensor, sample: Tensor, samples: int, levels: int) -> tuple[Counts, int]:
        """Of (N,) codes along a curve, eight of which make one of the next level; and how many differ at the finest.
        The one read from which all sizes of the network follow."""
        sorted_codes, order = codes.sort()
        own = sample[order]
        cells = torch.stack([_differ(sorted_codes >> 3 * level) for level in range(levels)])
        cells[0].fill_(1)  # points of one voxel stay apart at the finest
        there = cells.new_zeros(levels, samples).index_add_(1, own, cells)
        *rows, occupied = torch.cat([there.flatten(), _differ(sorted_codes).sum()[None]]).tolist()
        return cls(there, [rows[i * samples : (i + 1) * samples] for i in range(levels)]), occupied

    def coarser(self) -> Counts:
        return Counts(self.there[1:], self.here[1:])


def _differ(values: Tensor) -> Tensor:
    """(N,) 1 where a value is not the one before, else 0."""
    return torch.nn.functional.pad((values[1:] != values[:-1]).long(), (1, 0), value=1)


class Level:
    """N points, sample after sample, as serialized windows.

    positions (N, 3) are those of the data, places (N, 3) those that encodings are told, about each window's own middle
    if `centred`; codes (curves, N) order the points along each curve.
    """

    def __init__(
        self,
        sites: Sites,
        positions: Tensor,
        places: Tensor,
        codes: Tensor,
        counts: Counts,
        window: int,
        centred: bool,
    ) -> None:
        self.counts = counts
        self.sites, self.positions, self.places, self.codes, self.centred = sites, positions, places, codes, centred
        self.orders = codes.argsort(dim=1, stable=True)  # (curves, N)
        self.slots, self.valid, self.home = layout(counts.there[0], counts.here[0], window)
        widest = self.slots.shape[1]
        self.full = all(count >= widest for count in counts.here[0])  # no row has an empty slot
        self.cached: dict[int, Windows] = {}

    @cached_property
    def where(self) -> Where:
        """All points in one packed row, not cut into windows."""
        return Where(self.places[None], segment=self.sites.sample[None])

    def windows(self, curve: int) -> Windows:
        if curve not in self.cached:
            order = self.orders[curve]
            rows = Rows(order[self.slots], self.valid)
            places = rows.gather(self.places)  # (R, K, 3)
            if self.centred:  # by whole units, which costs no difference a digit
                middle = places.sum(1, keepdim=True) / self.valid.sum(1)[:, None, None]
                places = places - middle.round()
            where = Where(places, valid=None if self.full else self.valid)
            self.cached[curve] = Windows(rows, where, torch.empty_like(self.home).scatter_(0, order, self.home))
        return self.cached[curve]

    def cells(self) -> Cells:
        """The points by cells of 2 x 2 x 2 voxels, in the order of the first curve."""
        order = self.orders[0]
        run, lengths = run_lengths(self.codes[0][order] >> 3, sum(self.counts.here[1]))
        return Cells(order, torch.empty_like(run).scatter_(0, order, run), lengths)

    def shuffled(self) -> Level:
        """The same points, the curves in a random order."""
        level = copy.copy(self)
        curves = torch.randperm(len(self.codes)).tolist()
        level.codes, level.orders = (torch.stack([x[i] for i in curves]) for x in (self.codes, self.orders))
        level.cached = {}
        return level


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of points."""

    order: Tensor  # (N,) the points, cell after cell
    cell: Tensor  # (N,) the cell of each point
    lengths: Tensor  # (M,)

    @property
    def first(self) -> Tensor:
        """(M,) a point of each cell."""
        return self.order[self.lengths.cumsum(0) - self.lengths]

    def reduce(self, x: Tensor, how: Literal["mean", "max"]) -> Tensor:
        """(N, C) -> (M, C)."""
        return reduce_segments(x.index_select(0, self.order), self.lengths, how)


def layout(counts: Tensor, known: list[int], window: int) -> tuple[Tensor, Tensor, Tensor]:
    """Windows over samples of `counts` points, `known` to the host, that lie one after the other: the point in each
    slot (R, K), which slots hold one (R, K), and each point's own slot (N,)."""
    ends = counts.cumsum(0)
    each = (counts + window - 1) // window  # windows of each sample
    rows = [(count + window - 1) // window for count in known]
    sample = torch.repeat_interleave(each, output_size=sum(rows))  # (R,)
    number = torch.arange(sum(rows), device=counts.device) - (each.cumsum(0) - each)[sample]
    K = min(window, max(known))
    slots = ((ends - counts)[sample] + number * window)[:, None] + torch.arange(K, device=counts.device)
    inside = slots < ends[sample][:, None]
    owner = torch.repeat_interleave(counts, output_size=sum(known))  # (N,) the sample of each point
    place = torch.arange(sum(known), device=counts.device) - (ends - counts)[owner]  # its number there
    home = ((each.cumsum(0) - each)[owner] + place // window) * K + place % window
    several = (each[sample] > 1)[:, None]
    slots = torch.where(inside, slots, torch.where(several, slots - window, 0))
    return slots, inside | several, home
