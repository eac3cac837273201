"""Places counted in the extent of their sample (normalised coordinates)."""

import math

import torch
from torch import Tensor

from ndformer.framework.tokens import Where


def normalized(positions: Tensor, where: Where, by: str) -> Tensor:
    """From -1 to 1, or as far as another axis goes, over the tokens of each row (each sample, where rows are packed).
    Tokens are one unit wide; by their 'ends', from 0 to 1, they have no width."""
    real = where.real
    low, high = box(positions, where)
    extent = (high - low).clamp(min=0)
    if by == "ends":
        moved = (positions - low) / torch.where(extent > 0, extent, 1.0)
    else:
        sides = dict(separate=extent, min=extent.amin(-1, keepdim=True), max=extent.amax(-1, keepdim=True))
        moved = (2 * (positions - low) + 1) / (sides[by] + 1) - 1
    return moved if real is None else torch.where(real[..., None], moved, 0.0)


def box(positions: Tensor, where: Where) -> tuple[Tensor, Tensor]:
    """The lowest and highest place in each row, (B or 1, 1, P), or, if it is packed, in each token's sample (B, N, P).
    No value is looked at: so in graphs and on GPUs too, where packed rows are not cut."""
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
