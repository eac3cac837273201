"""Separable biases as extra channels of q and k, blockwise (tiles of queries): where float32 has the digits for it.

A parabola about query i, written as a polynomial in the key's position, has terms as large as the positions squared,
which cancel in the logit, and in the gradients of its coefficients. So queries are taken in blocks of a grid, each with
its own origin for the features, and nothing gets larger than a block. Tokens without a grid are one block.

Two blocks along an axis share a call of attention: each has the terms along that axis in channels of its own, which are
0 in the other's queries. Attention likes few long calls better than narrow heads.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.tokens import Where

# What may cancel, over a block: a bias as it is at the start, and its change with a weight. Outputs and gradients are
# good to 1e-5 there. 400 is 16 x 16 patches under PaPE with heads of 64.
BIAS, SLOPE = 400.0, 100.0
FEWEST = 64  # queries in a block for blocks to pay


def halvings(where: Where, factors: Sequence[float], curvature: float, slope: float) -> tuple[int, ...] | None:
    """How often to halve a grid of queries along each axis (log2 of its blocks) for a bias of -curvature |dr|^2, dr in
    positions times `factors`, to ride on q and k in float32; None where it had better not. Placed tokens before the
    grid belong to no block of it, and are not near any."""
    if where.extent is None:
        return None
    sizes = [2.0**log2 * factor for log2, factor in zip(where.extent, factors)]
    grid = where.grid if where.only_grid and len(where.grid or ()) == len(sizes) else None
    times, most = [0] * len(sizes), [0] * len(sizes)
    if grid is not None:  # no more halves than cells
        most = [math.floor(math.log2(max(1, cells))) for cells in grid]
    while sum(size**2 for size in sizes) * max(curvature / BIAS, slope / SLOPE) > 1:
        axes = [axis for axis, halved in enumerate(times) if halved < most[axis]]
        if grid is None or not axes or math.prod(grid) < FEWEST * 2 ** (sum(times) + 1):
            return None
        axis = max(axes, key=sizes.__getitem__)
        sizes[axis] /= 2
        times[axis] += 1
    return tuple(times)


class Local(NamedTuple):
    """One axis of positions about origins near the queries: one, or one for each of two halves; in float32."""

    queries: Tensor  # (B or 1, 1, N), each about its own origin
    keys: list[Tensor]  # (calls, B or 1, 1, N) about each origin
    shares: list[Tensor | None]  # (N,), 1 for the queries with this origin and 0 for others; None: all of them


class Near(NamedTuple):
    """Positions as features have them, found once for all blocks of a model. Queries are taken in one call of attention
    or several, and in each by halves along the axes, where a query speaks only to the channels of its own half."""

    axes: list[Local]
    calls: list[Tensor]  # the tokens (K,) of each call, prefix tokens with the first; empty: all of them in one

    def powers(self, pairs: Sequence[tuple[int, ...]]) -> Tensor:
        """What coefficients multiply: 1, each axis and the products of `pairs`, (calls, B or 1, 1, N, F). What lies off
        the diagonal counts twice."""
        channels = [torch.ones_like(self.axes[0].keys[0])]
        channels += [key for axis in self.axes for key in axis.keys]
        for a, b in pairs:
            if a == b:
                channels += [key * key for key in self.axes[a].keys]
            else:
                channels += [2 * one * two for one in self.axes[a].keys for two in self.axes[b].keys]
        return torch.stack(channels, dim=-1)

    def spoken(self, constant: Tensor, linear: Sequence[Tensor], entries: dict[tuple[int, ...], Tensor]) -> Tensor:
        """The coefficients of `powers`, each for the half that a query is of, (B, H, N, F)."""
        shares = [axis.shares for axis in self.axes]
        channels = [constant]
        channels += [_share(slope, share) for slope, of_axis in zip(linear, shares) for share in of_axis]
        for (a, b), m in entries.items():
            if a == b:
                channels += [_share(m, share) for share in shares[a]]
            else:
                channels += [_share(_share(m, one), two) for one in shares[a] for two in shares[b]]
        return torch.stack(channels, dim=-1)


def together(positions: Tensor) -> Near:
    """Positions (B or 1, N, P) as they are, for all queries at once."""
    axes = [axis[:, None].float() for axis in positions.unbind(-1)]
    return Near([Local(axis, [axis[None]], [None]) for axis in axes], [])


def near(positions: Tensor, where: Where, times: Sequence[int]) -> Near:
    """Positions (B or 1, N, P) of a grid halved so often along each axis."""
    grid = where.grid
    if grid is None or not any(times):
        return together(positions)
    index = torch.arange(positions.shape[1], device=positions.device)
    prefix, parts = index[: -math.prod(grid)], [index[-math.prod(grid) :].view(grid)]
    second: list[Tensor | None] = [None] * len(grid)  # (N,), 1.0 in the second half of a call and 0.0 in the first
    for axis, (size, halved) in enumerate(zip(grid, times)):
        if halved == 0:
            continue
        half = torch.arange(size, device=index.device) * 2**halved // size  # of 2**halved, two for a call
        bounds = [-(-call * size // 2 ** (halved - 1)) for call in range(2 ** (halved - 1) + 1)]
        parts = [part.narrow(axis, lo, hi - lo) for part in parts for lo, hi in zip(bounds, bounds[1:])]
        along = (half % 2).to(positions.dtype).view([-1 if a == axis else 1 for a in range(len(grid))])
        second[axis] = F.pad(along.expand(grid).flatten(), (len(prefix), 0))
    first, *others = [part.flatten() for part in parts]
    calls = [torch.cat([prefix, first]), *others]
    axes = [_local(axis[:, None], late, calls) for axis, late in zip(positions.unbind(-1), second)]
    return Near(axes, calls if others else [])


def _local(axis: Tensor, second: Tensor | None, calls: Sequence[Tensor]) -> Local:
    """Origins are whole numbers near the means, so that whole positions stay whole."""
    shares: list[Tensor | None] = [None] if second is None else [1 - second, second]
    queries, keys = torch.zeros_like(axis, dtype=torch.float32), []
    for share in shares:
        weights = torch.ones_like(axis[0]) if share is None else share
        sums = [((axis * weights)[..., call].sum(-1, keepdim=True), weights[..., call].sum()) for call in calls]
        own = torch.stack([axis - (total / count).round() for total, count in sums]).float()
        for call, centred in zip(calls, own):
            queries[..., call] += (centred * weights)[..., call].float()
        keys.append(own)
    return Local(queries, keys, [None if share is None else share.float() for share in shares])


def _share(coefficient: Tensor, share: Tensor | None) -> Tensor:
    return coefficient if share is None else coefficient * share
