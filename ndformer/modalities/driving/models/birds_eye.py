"""A bird's-eye-view map from tokens and a residual network over it, as in UniTR, BEVFusion and CenterPoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ndformer.framework.errors import DataError
from ndformer.framework.registry import NECKS
from ndformer.framework.registry.ranges import Few, Finite, Positive, SomeShare, Width
from ndformer.framework.system.norm_momentum import GradualNorm
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.driving.models.bev_grid import BEVGrid

EPS = 1e-3


def scatter_to_map(tokens: TokenSet, grid: BEVGrid, patches: bool = False) -> Tensor:
    """Return (B, C, ny, nx): the pillars at the cells of their positions (first two axes), 0 elsewhere.

    With `patches`, the mean of the camera patches in a cell is added.
    """
    x, B = tokens.features, tokens.features.shape[0]
    position = grid.to_cells(tokens.where.positions.expand(B, -1, -1))
    inside = grid.contains(position)
    inside = inside if tokens.where.valid is None else inside & tokens.where.valid
    cells = grid.shape[0] * grid.shape[1]
    number = grid.flat_index(position) + cells * torch.arange(B, device=x.device)[:, None]  # (B, N)
    pillar = inside if tokens.modality is None else inside & (tokens.modality == 0)
    index = number.flatten()  # of all tokens; others add 0, because selecting would synchronize with the device

    def summed(mask: Tensor) -> Tensor:
        values = torch.where(mask[..., None], x, 0).flatten(0, 1)
        return x.new_zeros(B * cells, x.shape[2]).index_put((index,), values, accumulate=True)

    total = summed(pillar)
    if patches:
        patch = inside & ~pillar
        count = number.new_zeros(B * cells).index_put((index,), patch.flatten().long(), accumulate=True)
        total = total + summed(patch) / count.clamp(min=1)[:, None]
    return total.unflatten(0, (B, *grid.shape)).permute(0, 3, 1, 2)


class MapNorm(GradualNorm, nn.BatchNorm2d):
    """Batch norm of maps, whose running statistics follow short trainings."""

    def __init__(self, channels: int, momentum: float) -> None:
        super().__init__(channels, EPS, momentum)


class Residual(nn.Module):
    """A residual block of two convolutions; `down` adds a 1 x 1 convolution to the shortcut."""

    def __init__(self, channels: int, out: int, stride: int, down: bool, momentum: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False),
            MapNorm(out, momentum),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            MapNorm(out, momentum),
        )
        side = [nn.Conv2d(channels, out, 1, stride, bias=False), MapNorm(out, momentum)]
        self.side = nn.Sequential(*side) if down else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.side(x)).relu()


@NECKS.register_module()
class BirdsEyeNet(nn.Module):
    """A residual network over a bird's-eye-view map of pillars, with upsampled and concatenated stages.

    The map has cells of `cell` meters from `low` to `high` (x, y). Stage i has `blocks[i]` residual blocks with
    `widths[i]` channels, the first with stride `strides[i]`. Each stage's output is resampled to `stride` with `up`
    channels. The defaults are UniTR's. `patches` adds camera patches to the map; UniTR leaves them out because pillars
    have attended to them. `norm_momentum` is the momentum of batch norms.
    """

    def __init__(
        self,
        dim: Width,
        low: tuple[Finite, Finite] = (-54.0, -54.0),
        high: tuple[Finite, Finite] = (54.0, 54.0),
        cell: Positive = 0.3,
        blocks: Sequence[Few] = (2, 3, 3, 3),
        strides: Sequence[Few] = (1, 2, 2, 2),
        widths: Sequence[Width] = (128, 128, 256, 256),
        stride: Few = 2,
        up: Width = 128,
        patches: bool = False,
        norm_momentum: SomeShare = 0.01,
    ) -> None:
        super().__init__()
        if not len(blocks) == len(strides) == len(widths) > 0:
            raise ValueError(
                f"blocks, strides and widths expect one number per stage, got {len(blocks)}, {len(strides)} and "
                f"{len(widths)} numbers"
            )
        shape = (round((high[1] - low[1]) / cell), round((high[0] - low[0]) / cell))
        self.grid, self.patches = BEVGrid(low, cell, shape), patches
        self.stages, self.ups, total = nn.ModuleList(), nn.ModuleList(), 1
        channels = dim
        for count, factor, width in zip(blocks, strides, widths):
            total *= factor
            down, more = (stride // total, 1) if total < stride else (1, total // stride)
            if shape[0] % total or shape[1] % total or stride * more != total * down:
                raise ValueError(
                    f"a map of {shape[1]} x {shape[0]} cells cannot have stages of stride {total} brought to {stride}: "
                    "choose low, high, cell and strides that divide each other"
                )
            layers = [Residual(channels, width, factor, True, norm_momentum)]
            layers += [Residual(width, width, 1, False, norm_momentum) for _ in range(count - 1)]
            self.stages.append(nn.Sequential(*layers))
            resized = (
                nn.Conv2d(width, up, down, down, bias=False)
                if total < stride
                else nn.ConvTranspose2d(width, up, more, more, bias=False)
            )
            self.ups.append(nn.Sequential(resized, MapNorm(up, norm_momentum), nn.ReLU()))
            channels = width
        self.width = up * len(blocks)  # channels of the output
        self.out = BEVGrid(low, cell * stride, (shape[0] // stride, shape[1] // stride))

    def forward(self, tokens: TokenSet) -> Tensor:
        """Return (B, width, ny / stride, nx / stride)."""
        x = scatter_to_map(tokens, self.grid, self.patches)
        if self.training and x.shape[0] == 0:
            raise DataError("expected a training batch with at least one sample, got none")
        maps = []
        for stage, up in zip(cast(list[nn.Module], self.stages), self.ups):
            x = stage(x)
            maps.append(up(x))
        return torch.cat(maps, 1)
