"""Feature maps from tokens: reshaped from a full grid, or the most recent token of each cell."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.system.autocast import contiguous_in_graph
from ndformer.framework.tokens import TokenSet


def grid_map(tokens: TokenSet) -> Tensor:
    """Return (B, C, height, width) from the tokens' grid, without prefix tokens; with time, the last frame."""
    grid = tokens.where.grid
    if grid is None:
        raise ValueError(
            "expected tokens on a full grid, got tokens without a grid, which have no map size. Set cells=(rows, "
            "columns) of the neck."
        )
    features = tokens.features[:, -math.prod(grid) :].unflatten(1, (-1, *grid[-2:]))  # (B, T, H, W, C)
    return contiguous_in_graph(features[:, -1].permute(0, 3, 1, 2))


def latest_map(tokens: TokenSet, cells: tuple[int, int], cell: float = 1.0, ages: bool = False) -> Tensor:
    """Return (B, C, *cells) with the most recent token of each cell, 0 where there is none.

    Positions are (y, x) or (time, y, x); cell (0, 0) extends from 0 to `cell` on both axes. With `ages`, times count
    back from now, so the smallest is the most recent. Ties, and all tokens without a time, go to the last token of the
    sequence. Tokens outside the map and tokens without a position are left out.
    """
    features, where = tokens.features, tokens.where
    batch, count, _ = features.shape
    positions = where.positions.expand(batch, -1, -1)
    row, column = (positions[..., -2:] / cell).floor().long().unbind(-1)  # (B, N)
    height, width = cells
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    if where.real is not None:
        inside = inside & where.real
    index = torch.where(inside, row * width + column, height * width)  # an extra last cell for tokens left out
    order = torch.arange(count, device=features.device).expand(batch, count)
    if positions.shape[-1] > 2:  # rank in time; the stable sort keeps ties in token order
        time = -positions[..., 0] if ages else positions[..., 0]
        order = time.argsort(dim=1, stable=True).argsort(dim=1)
    latest = torch.full((batch, height * width + 1), -1, device=features.device)
    latest = latest.scatter_reduce(1, index, order, "amax")[:, :-1]  # (B, cells); a maximum is deterministic
    by_order = F.pad(order.argsort(dim=1), (0, 1), value=count)  # empty cells read a zero token appended at the end
    token = by_order.gather(1, torch.where(latest < 0, count, latest))
    cell_features = F.pad(features, (0, 0, 0, 1)).gather(1, token[..., None].expand(-1, -1, features.shape[2]))
    return cell_features.unflatten(1, cells).permute(0, 3, 1, 2)
