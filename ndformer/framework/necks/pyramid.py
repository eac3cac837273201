"""The simple feature pyramid of ViTDet (Li 2022): maps at several scales from the single map of a transformer."""

import math
from collections.abc import Sequence
from typing import Annotated, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.registry import NECKS
from ndformer.framework.registry.ranges import Filled, Positive, Side, Width
from ndformer.framework.system.autocast import contiguous_in_graph
from ndformer.framework.tokens import TokenSet

T = TypeVar("T")


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of a map (B, C, H, W)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-6)

    def forward(self, input: Tensor) -> Tensor:
        return contiguous_in_graph(super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


@NECKS.register_module()
class SimpleFeaturePyramid(nn.Module):
    """A feature pyramid with one map of `width` channels per scale, relative to the tokens' grid.

    Levels have 3 x 3 convolutions as in ViTDet; `reduced=True` leaves them out as in the PaPE paper. Sparse tokens
    become a map of `cells` (rows, columns), each of side `cell` in position units, with the most recent token of each
    cell (`ages`: times count back from now).
    """

    def __init__(
        self,
        dim: Width,
        width: Width = 256,
        scales: Annotated[Sequence[Positive], Filled()] = (2, 1, 0.5),
        reduced: bool = False,
        cells: tuple[Side, Side] | None = None,
        cell: Positive = 1.0,
        ages: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.scales, self.cells, self.cell, self.ages = width, tuple(scales), cells, cell, ages
        level = _reduced if reduced else _level
        self.levels = nn.ModuleList(level(dim, width, scale) for scale in self.scales)

    def forward(self, tokens: TokenSet) -> list[Tensor]:
        """Return maps (B, width, H s, W s), one for each scale s, with sizes rounded up."""
        x = grid_map(tokens) if self.cells is None else latest_map(tokens, self.cells, self.cell, self.ages)
        return [level(x) for level in self.levels]


def _level(dim: int, width: int, scale: float) -> nn.Sequential:
    half, quarter = dim // 2, dim // 4
    double = [nn.ConvTranspose2d(dim, half, 2, 2)]
    resize: dict[float, tuple[int, list[nn.Module]]] = {
        4: (quarter, [*double, ChannelNorm(half), nn.GELU(), nn.ConvTranspose2d(half, quarter, 2, 2)]),
        2: (half, [*double]),
        1: (dim, []),
        0.5: (dim, [nn.MaxPool2d(2, ceil_mode=True)]),  # ceil_mode keeps an odd last row or column
    }
    channels, layers = _level_layers(resize, scale)
    out = [nn.Conv2d(channels, width, 1, bias=False), ChannelNorm(width)]
    return nn.Sequential(*layers, *out, nn.Conv2d(width, width, 3, padding=1, bias=False), ChannelNorm(width))


def _reduced(dim: int, width: int, scale: float) -> nn.Sequential:
    resize: dict[float, list[nn.Module]] = {
        2: [nn.ConvTranspose2d(dim, width, 2, 2)],
        1: [nn.Conv2d(dim, width, 1)],
        0.5: [nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(dim, width, 1)],
    }
    return nn.Sequential(*_level_layers(resize, scale), ChannelNorm(width))


def _level_layers(levels: dict[float, T], scale: float) -> T:
    if scale not in levels:
        raise ValueError(f"scales expects {', '.join(f'{s:g}' for s in levels)}, got {scale:g}")
    return levels[scale]


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
