"""Separable biases as extra channels of q and k, computed for blocks of queries to keep float32 precision.

A parabola around query i, written as a polynomial in the key's position, has terms as large as the squared positions,
which cancel in the logit and in the gradients of its coefficients. Queries are therefore split into blocks of a grid.
Each block measures positions from its own origin, so that the terms that cancel are at most as large as a squared block
(keys far away have larger terms, and little weight). Tokens without a grid form one block.

Two blocks along an axis share one attention call: each has separate channels for the terms along that axis, which are 0
in the queries of the other block. Few long calls are faster than many calls with narrow heads.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.tokens import Where

# Largest magnitudes that may cancel within a block: the initial bias, and its derivative by a weight. Outputs and
# gradients are then accurate to 1e-5. 400 corresponds to 16 x 16 patches under PaPE with 64 channels per head.
MAX_BIAS, MAX_SLOPE = 400.0, 100.0
MIN_QUERIES = 64  # smaller blocks of queries are not faster


def block_splits(where: Where, factors: Sequence[float], curvature: float, slope: float) -> tuple[int, ...] | None:
    """Return log2 of the number of query blocks per axis at which float32 channels are accurate, or None.

    The bias is -curvature |dr|^2 with dr in positions times `factors`; `slope` is its largest change with one weight,
    over |dr|^2. None means that extra channels are inaccurate or slow. Tokens that precede the grid in the sequence and
    have a position belong to no block, so they also give None.
    """
    if where.extent is None:
        return None
    sizes = [2.0**log2 * factor for log2, factor in zip(where.extent, factors)]
    grid = where.grid if where.only_grid and len(where.grid or ()) == len(sizes) else None
    splits, limits = [0] * len(sizes), [0] * len(sizes)
    if grid is not None:  # at most one block per cell
        limits = [math.floor(math.log2(max(1, cells))) for cells in grid]
    while sum(size**2 for size in sizes) * max(curvature / MAX_BIAS, slope / MAX_SLOPE) > 1:
        axes = [axis for axis, count in enumerate(splits) if count < limits[axis]]
        if grid is None or not axes or math.prod(grid) < MIN_QUERIES * 2 ** (sum(splits) + 1):
            return None
        axis = max(axes, key=sizes.__getitem__)
        sizes[axis] /= 2
        splits[axis] += 1
    return tuple(splits)


class LocalAxis(NamedTuple):
    """One axis of positions in float32, relative to one origin or to one origin for each of two halves."""

    queries: Tensor  # (B or 1, 1, N), each relative to the origin of its half
    keys: list[Tensor]  # (calls, B or 1, 1, N) relative to each origin
    shares: list[Tensor | None]  # (N,), 1 for queries with this origin, else 0; None: all queries


class LocalPositions(NamedTuple):
    """Positions relative to the origins of query blocks, computed once and shared by all layers.

    Queries are processed in one or several attention calls. Within a call they are split into two halves along some
    axes; a query uses only the channels of its half.
    """

    axes: list[LocalAxis]
    calls: list[Tensor]  # token indices (K,) of each call, prefix tokens in the first; empty: one call

    def key_channels(self, pairs: Sequence[tuple[int, ...]]) -> Tensor:
        """Return the monomials 1, each axis and the products of `pairs`: (calls, B or 1, 1, N, F).

        Each is there once for each half of its axes, so F depends on the split. Off-diagonal products count twice.
        """
        channels = [torch.ones_like(self.axes[0].keys[0])]
        channels += [key for axis in self.axes for key in axis.keys]
        for a, b in pairs:
            if a == b:
                channels += [key * key for key in self.axes[a].keys]
            else:
                channels += [2 * first * second for first in self.axes[a].keys for second in self.axes[b].keys]
        return torch.stack(channels, dim=-1)

    def isotropic_channels(self) -> tuple[Tensor, Tensor]:
        """Return |dr|^2 as a product of channels of queries and keys: (B or 1, 1, N, P + 2) and the same for one call.

        It is |r_i|^2 - 2 r_i r_j + |r_j|^2. Only for tokens that form one block.
        """
        r = torch.stack([axis.queries for axis in self.axes], dim=-1)  # (B or 1, 1, N, P)
        square, ones = r.square().sum(-1, keepdim=True), torch.ones_like(r[..., :1])
        return torch.cat([square, -2 * r, ones], dim=-1), torch.cat([ones, r, square], dim=-1)[None]

    @property
    def is_single_block(self) -> bool:
        return not self.calls and all(len(axis.keys) == 1 for axis in self.axes)

    def query_channels(
        self, constant: Tensor, linear: Sequence[Tensor], entries: dict[tuple[int, ...], Tensor]
    ) -> Tensor:
        """Return the coefficients of `key_channels`, 0 for channels of the other half: (B, H, N, F)."""
        shares = [axis.shares for axis in self.axes]
        channels = [constant]
        channels += [_share(slope, share) for slope, halves in zip(linear, shares) for share in halves]
        for (a, b), m in entries.items():
            if a == b:
                channels += [_share(m, share) for share in shares[a]]
            else:
                channels += [_share(_share(m, first), second) for first in shares[a] for second in shares[b]]
        return torch.stack(channels, dim=-1)


def single_block(positions: Tensor) -> LocalPositions:
    """Return positions (B or 1, N, P) unchanged, as one block of queries."""
    axes = [axis[:, None].float() for axis in positions.unbind(-1)]
    return LocalPositions([LocalAxis(axis, [axis[None]], [None]) for axis in axes], [])


def local_positions(positions: Tensor, where: Where, splits: Sequence[int]) -> LocalPositions:
    """Return positions (B or 1, N, P) for a grid split into 2^splits blocks along each axis."""
    grid = where.grid
    if grid is None or not any(splits):
        return single_block(positions)
    index = torch.arange(positions.shape[1], device=positions.device)
    prefix, parts = index[: -math.prod(grid)], [index[-math.prod(grid) :].view(grid)]
    second: list[Tensor | None] = [None] * len(grid)  # (N,), 1.0 in the second half of a call and 0.0 in the first
    for axis, (size, count) in enumerate(zip(grid, splits)):
        if count == 0:
            continue
        half = torch.arange(size, device=index.device) * 2**count // size  # block index; a call has two blocks
        bounds = [-(-call * size // 2 ** (count - 1)) for call in range(2 ** (count - 1) + 1)]
        parts = [part.narrow(axis, lo, hi - lo) for part in parts for lo, hi in zip(bounds, bounds[1:])]
        along = (half % 2).to(positions.dtype).view([-1 if a == axis else 1 for a in range(len(grid))])
        second[axis] = F.pad(along.expand(grid).flatten(), (len(prefix), 0))
    first, *further = [part.flatten() for part in parts]
    calls = [torch.cat([prefix, first]), *further]
    axes = [_local_axis(axis[:, None], half, calls) for axis, half in zip(positions.unbind(-1), second)]
    return LocalPositions(axes, calls if further else [])


def _local_axis(axis: Tensor, second: Tensor | None, calls: Sequence[Tensor]) -> LocalAxis:
    """Return an axis relative to origins, which are rounded means, so that integer positions stay integers."""
    shares: list[Tensor | None] = [None] if second is None else [1 - second, second]
    queries, keys = torch.zeros_like(axis, dtype=torch.float32), []
    for share in shares:
        weights = torch.ones_like(axis[0]) if share is None else share
        sums = [((axis * weights)[..., call].sum(-1, keepdim=True), weights[..., call].sum()) for call in calls]
        centered = torch.stack([axis - (total / count).round() for total, count in sums]).float()
        for call, part in zip(calls, centered):
            queries[..., call] += (part * weights)[..., call].float()
        keys.append(centered)
    return LocalAxis(queries, keys, [None if share is None else share.float() for share in shares])


def _share(coefficient: Tensor, share: Tensor | None) -> Tensor:
    return coefficient if share is None else coefficient * share
