"""Sites: occupied voxels and their neighbors, for sparse convolution.

Voxels are numbered in the order of their keys, so that neighbors are close in memory. Neighbors are found by one search
in the sorted keys for each line of the kernel along the last axis, followed by a walk along the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.sparse.segments import reduce_segments, run_lengths

BLOCK = 8192  # voxels convolved at a time on a CPU, so that gathered features fit the cache


@dataclass(frozen=True)
class Extent:
    """Bounds of the voxels, needed on the host to number them; measuring them synchronizes a GPU."""

    samples: int
    low: tuple[int, ...]  # the lowest voxel along each axis
    high: tuple[int, ...]
    occupied: int | None = None  # number of occupied voxels

    @classmethod
    def measure(cls, grid: Tensor, sample: Tensor) -> Extent:
        """Measure the extent of a grid (N, 3) and sample indices (N,)."""
        last, *edges = torch.cat([sample.amax()[None], grid.amin(0), grid.amax(0)]).tolist()
        return cls(last + 1, tuple(edges[:3]), tuple(edges[3:]))


class Sites:
    """The occupied voxels of N points, with neighbor tables per kernel size that all layers share.

    Points in one voxel form one site, whose features are their mean.
    """

    def __init__(self, grid: Tensor, sample: Tensor, extent: Extent | None = None) -> None:
        """grid (N, 3) integers; sample (N,) from 0: voxels of different samples are never neighbors."""
        if grid.dim() != 2 or grid.shape[1] != 3 or sample.shape != grid.shape[:1]:
            raise ValueError(
                f"sites require a grid (N, 3) and a sample (N,), got {tuple(grid.shape)} and {tuple(sample.shape)}"
            )
        self.grid, self.sample = grid.long(), sample.long()
        self.tables: dict[int, Table] = {}
        self.cache: dict[Any, Any] = {}  # tables of another backend
        self.extent = extent = extent or Extent.measure(self.grid, self.sample)
        self.shape = [high - low + 1 for low, high in zip(extent.low, extent.high)]
        key, self.order = torch.sort(self.keys(0), stable=True)  # rows in the order of their voxels
        run, lengths = run_lengths(key, extent.occupied)
        self.lengths = None if len(lengths) == len(key) else lengths  # None: one point per voxel
        self.site = torch.empty_like(run).scatter_(0, self.order, run)  # (N,) site of each row
        self.first = self.order[lengths.cumsum(0) - lengths]  # (V,) first row of each site

    def __len__(self) -> int:
        return len(self.first)

    def keys(self, margin: int) -> Tensor:
        """Return (N,) integer keys of voxels, ordered by sample, x, y, z; offsets up to `margin` stay in the sample."""
        x, y, z = (size + 2 * margin for size in self.shape)
        if self.extent.samples * x * y * z >= 2**62:
            raise DataError(
                f"voxel grids must have less than 2^62 cells, got {self.shape}. Use larger voxels or remove outliers"
            )
        gx, gy, gz = (axis - (low - margin) for axis, low in zip(self.grid.unbind(1), self.extent.low))
        return ((self.sample * x + gx) * y + gy) * z + gz

    def gather(self, x: Tensor) -> Tensor:
        """Return (V, C), the mean of the rows (N, C) of each site."""
        rows = Permute.apply(x, self.order, self.site if self.lengths is None else None)
        return rows if self.lengths is None else reduce_segments(rows, self.lengths, "mean")

    def spread(self, y: Tensor) -> Tensor:
        """Return (N, C), the values (V, C) of the site of each row."""
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
        padded = torch.nn.functional.pad(key, (0, 1), value=-1)  # the search may end after the last key
        half = kernel**3 // 2  # offsets in weight order, up to the center
        lines = [(line // kernel**2 - r) * sy + line // kernel % kernel - r for line in range(0, half, kernel)]
        targets: list[Tensor] = []  # per offset the sites o, ascending,
        sources: list[Tensor] = []  # and their neighbors i = o + offset
        for group in [lines] if key.device.type != "cpu" else [[line] for line in lines]:  # one synchronization each
            target = torch.stack([key + (line * sz - r) for line in group])  # (lines, V)
            index = torch.searchsorted(key, target)
            hits, indices = [], []
            for _ in range(kernel):  # walk along the last axis
                hits.append(padded[index] == target)
                indices.append(index)
                index, target = index + hits[-1], target + 1
            hit, index = (
                torch.stack(side, 1).flatten(0, 1)[: half - len(targets)] for side in (hits, indices)
            )  # (offsets, V)
            counts = hit.view(torch.uint8).sum(1, dtype=torch.int32).tolist()  # ten times as fast as a sum of bool
            pairs = torch.nonzero_static(hit.flatten(), size=sum(counts)).squeeze(1)
            targets.extend((pairs % V).split(counts))
            sources.extend(index.flatten()[pairs].split(counts))
        # if i is at offset d from o, then o is at -d from i; the center is not in the table
        both = targets + sources[::-1], sources + targets[::-1]
        return Table.in_blocks(*both, V, BLOCK) if key.device.type == "cpu" else Table.single_block(*both, V)


@dataclass(frozen=True)
class Block:
    """Pairs of neighbors (i, o) for targets o in lo..hi-1, ordered by offset, then o."""

    lo: int
    hi: int
    targets: tuple[Tensor, ...]  # per offset the sites o
    sources: tuple[Tensor, ...]  # per offset the sites i
    by_site: Tensor  # (pairs,) pair indices ordered by o
    ends: Tensor  # (hi - lo + 1,) start of each site in `by_site`, and the end

    @property
    def counts(self) -> list[int]:
        return [len(sites) for sites in self.sources]


@dataclass(frozen=True)
class Table:
    """All pairs of neighbors for one kernel size."""

    blocks: list[Block]

    @classmethod
    def single_block(cls, targets: list[Tensor], sources: list[Tensor], sites: int) -> Table:
        """Return a table with one block, which needs no sizes on the host."""
        o = torch.cat(targets)
        ends = o.new_zeros(sites + 1).index_add_(0, o + 1, torch.ones_like(o)).cumsum(0)
        return cls([Block(0, sites, tuple(targets), tuple(sources), o.argsort(stable=True), ends)])

    @classmethod
    def in_blocks(cls, targets: list[Tensor], sources: list[Tensor], sites: int, size: int) -> Table:
        """Return a table cut into blocks of `size` sites, from pairs per offset, ascending in `targets`."""
        bounds = torch.arange(0, sites + size, size, device=targets[0].device).clamp(max=sites)
        cuts = torch.stack([torch.searchsorted(o, bounds) for o in targets])  # (offsets, blocks + 1)
        counts = cuts.diff()
        shift = (
            counts.cumsum(0) - counts - cuts[:, :-1]
        )  # from the index of a pair in its offset to the index in its block
        ends = torch.nn.functional.pad(torch.bincount(torch.cat(targets), minlength=sites).cumsum(0), (1, 0))
        by_site = ends.new_empty(sum(map(len, targets)))
        free = ends[:-1].clone()  # per site, the slot of its next pair
        for o, i in enumerate(targets):
            slot = free.index_select(0, i)
            by_site[slot] = torch.arange(len(i), device=i.device) + shift[o].index_select(0, i // size)
            free.index_copy_(0, i, slot + 1)
        blocks = []
        offsets, firsts, edges = cuts.tolist(), ends[bounds].tolist(), bounds.tolist()
        for b, (lo, hi) in enumerate(zip(edges[:-1], edges[1:])):
            block_targets, block_sources = (
                tuple(t[c[b] : c[b + 1]] for t, c in zip(side, offsets)) for side in (targets, sources)
            )
            inside = by_site[firsts[b] : firsts[b + 1]]
            blocks.append(Block(lo, hi, block_targets, block_sources, inside, ends[lo : hi + 1] - firsts[b]))
        return cls(blocks)


class Permute(torch.autograd.Function):
    """x[index] with a gather as gradient, if `index` is a permutation with known inverse."""

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
