"""Normalized coordinates: positions in units of the extent of their sample."""

import math

import torch
from torch import Tensor

from ndformer.framework.tokens import Where


def normalize_positions(positions: Tensor, where: Where, mode: str) -> Tensor:
    """Return positions from -1 to 1 over the tokens of each row, or of each sample where rows are packed.

    `mode` says whose extent is 2: each axis by itself ('separate'), the shortest ('min') or the longest axis ('max');
    tokens are one unit wide. With 'ends' tokens have no width, and each axis runs from 0 to 1.
    """
    real = where.real
    low, high = bounding_box(positions, where)
    extent = (high - low).clamp(min=0)
    if mode == "ends":
        normalized = (positions - low) / torch.where(extent > 0, extent, 1.0)
    else:
        extents = dict(separate=extent, min=extent.amin(-1, keepdim=True), max=extent.amax(-1, keepdim=True))
        normalized = (2 * (positions - low) + 1) / (extents[mode] + 1) - 1
    return normalized if real is None else torch.where(real[..., None], normalized, 0.0)


def bounding_box(positions: Tensor, where: Where) -> tuple[Tensor, Tensor]:
    """Return the lowest and highest coordinates of each row, (B or 1, 1, P), or of each token's sample, (B, N, P).

    The second where rows are packed. It reads no value of a tensor, so that it works in graphs and without a GPU
    synchronization.
    """
    if positions.shape[1] == 0:
        return positions, positions
    real = where.real
    low = positions if real is None else positions.masked_fill(~real[..., None], math.inf)
    high = positions if real is None else positions.masked_fill(~real[..., None], -math.inf)
    if where.segment is None:
        return low.amin(1, keepdim=True), high.amax(1, keepdim=True)
    run = where.runs()[..., None].expand_as(positions)
    lowest = torch.full_like(low, math.inf).scatter_reduce(1, run, low, "amin").gather(1, run)
    return lowest, torch.full_like(high, -math.inf).scatter_reduce(1, run, high, "amax").gather(1, run)
