"""Separable biases as extra channels of q and k: where float32 has the digits for it.

A parabola about query i, written as a polynomial in the key's position, has terms as large as the positions squared,
which cancel in the logit, and in the gradients of its coefficients. So queries are taken in blocks of a grid, each with
its own origin for the features, and nothing gets larger than a block. Tokens without a grid are one block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ndformer.framework.tokens import Where

# What may cancel, over a block: a bias as it is at the start, and its change with a weight. Outputs and gradients are
# good to 1e-5 there. 400 is 16 x 16 patches under PaPE with heads of 64.
BIAS, SLOPE = 400.0, 100.0
FEWEST = 64  # queries in a block for blocks to pay


def halvings(where: Where, factors: Sequence[float], curvature: float, slope: float) -> tuple[int, ...] | None:
    """How often to halve a grid of queries along each axis for a bias of -curvature |dr|^2, dr in positions times
    `factors`, to ride on q and k in float32; None where it had better not."""
    if where.extent is None:
        return None
    sizes = [2.0**log2 * factor for log2, factor in zip(where.extent, factors)]
    times, most = [0] * len(sizes), 0
    if where.grid is not None and len(where.grid) == len(sizes):
        most = math.floor(math.log2(max(1, math.prod(where.grid) / FEWEST)))
    while sum(size**2 for size in sizes) * max(curvature / BIAS, slope / SLOPE) > 1:
        if sum(times) == most:
            return None
        axis = sizes.index(max(sizes))
        sizes[axis] /= 2
        times[axis] += 1
    return tuple(times)


def blocks(where: Where, times: Sequence[int]) -> list[Tensor]:
    """The tokens of each block of the grid, halved so often along each axis; prefix tokens go with the first."""
    tokens, grid = where.positions.shape[1], where.grid
    assert grid is not None
    index = torch.arange(tokens, device=where.positions.device)
    prefix, parts = index[: -math.prod(grid)], [index[-math.prod(grid) :].view(grid)]
    for axis, halved in enumerate(times):
        parts = [part for whole in parts for part in whole.tensor_split(2**halved, dim=axis)]
    first, *others = [part.flatten() for part in parts]
    return [torch.cat([prefix, first]), *others]
