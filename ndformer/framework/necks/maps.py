"""Tokens to a map: as they stand where they are a full grid, else the most recent token of each cell."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.tokens import TokenSet


def grid_map(tokens: TokenSet) -> Tensor:
    """(B, C, height, width) of the tokens' grid, without prefix tokens; of a grid over time, the last map."""
    grid = tokens.where.grid
    if grid is None:
        raise ValueError(
            "these tokens are no full grid, so their map has no size of its own: give the neck cells=(rows, columns)"
        )
    features = tokens.features[:, -math.prod(grid) :].unflatten(1, (-1, *grid[-2:]))  # (B, T, H, W, C)
    return features[:, -1].permute(0, 3, 1, 2)


def latest_map(tokens: TokenSet, cells: tuple[int, int], cell: float = 1.0, ages: bool = False) -> Tensor:
    """(B, C, *cells) with the most recent token of each cell, 0 where there is none.

    Positions are (y, x) or (time, y, x), cell (0, 0) reaches from 0 to `cell` on both axes. `ages`: times count back
    from now, so the smallest is the most recent. Without a time, and of equal times, the later token of a row counts.
    Tokens beyond the map, and those without a place, are left out.
    """
    features, where = tokens.features, tokens.where
    batch, count, _ = features.shape
    positions = where.positions.expand(batch, -1, -1)
    row, column = (positions[..., -2:] / cell).floor().long().unbind(-1)  # (B, N)
    height, width = cells
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    if where.real is not None:
        inside = inside & where.real
    home = torch.where(inside, row * width + column, height * width)  # the last cell takes what is left out
    order = torch.arange(count, device=features.device).expand(batch, count)
    if positions.shape[-1] > 2:  # the rank in time, equal times in their order
        time = -positions[..., 0] if ages else positions[..., 0]
        order = time.argsort(dim=1, stable=True).argsort(dim=1)
    latest = torch.full((batch, height * width + 1), -1, device=features.device)
    latest = latest.scatter_reduce(1, home, order, "amax")[:, :-1]  # (B, cells) a maximum, in whatever order: exact
    by_order = F.pad(order.argsort(dim=1), (0, 1), value=count)  # -1, no token, is the one of zeros at the end
    token = by_order.gather(1, torch.where(latest < 0, count, latest))
    taken = F.pad(features, (0, 0, 0, 1)).gather(1, token[..., None].expand(-1, -1, features.shape[2]))
    return taken.unflatten(1, cells).permute(0, 3, 1, 2)
