"""Sites: which voxels are occupied, and which of them are neighbours.

Voxels are numbered in the order of their keys, so that neighbours are near each other in memory. Neighbours are found
by searching the sorted keys once for every line of the kernel along the last axis, and walking on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.sparse.segments import reduce_segments, run_lengths

BLOCK = 8192  # voxels convolved at a time on CPU: what is gathered for them stays in the cache


@dataclass(frozen=True)
class Extent:
    """What the host has to know of voxels before it can number them. To read it off their values makes a GPU wait."""

    samples: int
    low: tuple[int, ...]  # the lowest voxel along each axis
    high: tuple[int, ...]
    occupied: int | None = None  # how many voxels

    @classmethod
    def measure(cls, grid: Tensor, sample: Tensor) -> Extent:
        last, *edges = torch.cat([sample.amax()[None], grid.amin(0), grid.amax(0)]).tolist()
        return cls(last + 1, tuple(edges[:3]), tuple(edges[3:]))


class Sites:
    """The voxels of N points, and for each kernel size the table of neighbours that all layers share.

    Points of one voxel are one site: it has the mean of their features.
    """

    def __init__(self, grid: Tensor, sample: Tensor, extent: Extent | None = None) -> None:
        """grid (N, 3) whole numbers; sample (N,) from 0: voxels of different samples are no neighbours."""
        if grid.dim() != 2 or grid.shape[1] != 3 or sample.shape != grid.shape[:1]:
            raise ValueError(f"sites are a grid (N, 3) and a sample (N,), got {grid.shape} and {sample.shape}")
        self.grid, self.sample = grid.long(), sample.long()
        self.tables: dict[int, Table] = {}
        self.cache: dict[Any, Any] = {}  # another backend's own tables
        self.extent = extent = extent or Extent.measure(self.grid, self.sample)
        self.shape = [high - low + 1 for low, high in zip(extent.low, extent.high)]
        key, self.order = torch.sort(self.keys(0), stable=True)  # rows in the order of their voxels
        run, lengths = run_lengths(key, extent.occupied)
        self.lengths = None if len(lengths) == len(key) else lengths  # None: every point has a voxel of its own
        self.site = torch.empty_like(run).scatter_(0, self.order, run)  # (N,) the site of each row
        self.first = self.order[lengths.cumsum(0) - lengths]  # (V,) a row of each site

    def __len__(self) -> int:
        return len(self.first)

    def keys(self, margin: int) -> Tensor:
        """(N,) one number per voxel, ascending with sample, x, y, z; steps up to `margin` do not leave a sample."""
        x, y, z = (size + 2 * margin for size in self.shape)
        if self.extent.samples * x * y * z >= 2**62:
            raise DataError(
                f"points spread over {self.shape} voxels, too many to number: take larger ones or remove outliers"
            )
        gx, gy, gz = (axis - (low - margin) for axis, low in zip(self.grid.unbind(1), self.extent.low))
        return ((self.sample * x + gx) * y + gy) * z + gz

    def gather(self, x: Tensor) -> Tensor:
        """(N, C) -> (V, C), the mean of each site's rows."""
        rows = Permute.apply(x, self.order, self.site if self.lengths is None else None)
        return rows if self.lengths is None else reduce_segments(rows, self.lengths, "mean")

    def spread(self, y: Tensor) -> Tensor:
        """(V, C) -> (N, C)."""
        return Permute.apply(y, self.site, self.order if self.lengths is None else None)

    def table(self, kernel: int) -> Table:
        if kernel not in self.tables:
            self.tables[kernel] = self._table(kernel)
        return self.tables[kernel]

    @torch.no_grad()
    def _table(self, kernel: int) -> Table:
        r, V = kernel // 2, len(self)
        key = self.keys(r)[self.first]  # ascending
        sy, sz = self.shape[1] + 2 * r, self.shape[2] + 2 * r
        padded = torch.nn.functional.pad(key, (0, 1), value=-1)  # the search may end behind the last
        half = kernel**3 // 2  # offsets in the order of the weights, up to the centre
        lines = [(line // kernel**2 - r) * sy + line // kernel % kernel - r for line in range(0, half, kernel)]
        here: list[Tensor] = []  # per offset the sites o, ascending,
        there: list[Tensor] = []  # and their neighbours i = o + offset
        for some in [lines] if key.device.type != "cpu" else [[line] for line in lines]:  # a GPU waits once for each
            target = torch.stack([key + (line * sz - r) for line in some])  # (lines, V)
            at = torch.searchsorted(key, target)
            hits, ats = [], []
            for _ in range(kernel):  # walks on along the last axis
                hits.append(padded[at] == target)
                ats.append(at)
                at, target = at + hits[-1], target + 1
            hit, at = (torch.stack(side, 1).flatten(0, 1)[: half - len(here)] for side in (hits, ats))  # (offsets, V)
            counts = hit.view(torch.uint8).sum(1, dtype=torch.int32).tolist()  # ten times as fast as of bool
            pairs = torch.nonzero_static(hit.flatten(), size=sum(counts)).squeeze(1)
            here.extend((pairs % V).split(counts))
            there.extend(at.flatten()[pairs].split(counts))
        # i at offset d from o is o at -d from i; the centre, where all are their own, is not in the table
        both = here + there[::-1], there + here[::-1]
        return Table.in_blocks(*both, V, BLOCK) if key.device.type == "cpu" else Table.single_block(*both, V)


@dataclass(frozen=True)
class Block:
    """The pairs of neighbours (i, o) of the sites lo..hi-1 as o, ordered by offset, then o."""

    lo: int
    hi: int
    targets: tuple[Tensor, ...]  # per offset the sites o
    sources: tuple[Tensor, ...]  # per offset the sites i
    by_site: Tensor  # (pairs,) the pairs ordered by o
    ends: Tensor  # (hi - lo + 1,) where in `by_site` those of a site begin, and the end

    @property
    def counts(self) -> list[int]:
        return [len(sites) for sites in self.sources]


@dataclass(frozen=True)
class Table:
    """All pairs of neighbours for one size of kernel."""

    blocks: list[Block]

    @classmethod
    def single_block(cls, here: list[Tensor], there: list[Tensor], sites: int) -> Table:
        """All sites in one block, whose sizes nobody has to read."""
        o = torch.cat(here)
        ends = o.new_zeros(sites + 1).index_add_(0, o + 1, torch.ones_like(o)).cumsum(0)
        return cls([Block(0, sites, tuple(here), tuple(there), o.argsort(stable=True), ends)])

    @classmethod
    def in_blocks(cls, here: list[Tensor], there: list[Tensor], sites: int, size: int) -> Table:
        """Pairs per offset, ascending in `here`, cut into blocks of `size` sites."""
        bounds = torch.arange(0, sites + size, size, device=here[0].device).clamp(max=sites)
        cuts = torch.stack([torch.searchsorted(o, bounds) for o in here])  # (offsets, blocks + 1)
        counts = cuts.diff()
        shift = counts.cumsum(0) - counts - cuts[:, :-1]  # from a pair's number in its offset to that in its block
        ends = torch.nn.functional.pad(torch.bincount(torch.cat(here), minlength=sites).cumsum(0), (1, 0))
        by_site = ends.new_empty(sum(map(len, here)))
        free = ends[:-1].clone()  # per site, where its next pair goes
        for o, i in enumerate(here):
            slot = free.index_select(0, i)
            by_site[slot] = torch.arange(len(i), device=i.device) + shift[o].index_select(0, i // size)
            free.index_copy_(0, i, slot + 1)
        blocks = []
        at, firsts, edges = cuts.tolist(), ends[bounds].tolist(), bounds.tolist()
        for b, (lo, hi) in enumerate(zip(edges[:-1], edges[1:])):
            targets, sources = (tuple(t[c[b] : c[b + 1]] for t, c in zip(side, at)) for side in (here, there))
            inside = by_site[firsts[b] : firsts[b + 1]]
            blocks.append(Block(lo, hi, targets, sources, inside, ends[lo : hi + 1] - firsts[b]))
        return cls(blocks)


class Permute(torch.autograd.Function):
    """x[index], whose gradient is a gather too where `index` is a permutation and its inverse is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor | None) -> Tensor:
        ctx.save_for_backward(index, inverse)
        ctx.rows = len(x)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        index, inverse = ctx.saved_tensors
        if inverse is not None:
            return grad.index_select(0, inverse), None, None
        return grad.new_zeros(ctx.rows, *grad.shape[1:]).index_add_(0, index, grad), None, None
