"""The simple feature pyramid of ViTDet (Li 2022): maps at several scales from the single map of a transformer."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

from torch import Tensor, nn

from ndformer.framework.necks.maps import grid_map, latest_map
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
