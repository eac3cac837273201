"""Tokens to a map from above, and a residual network over it (that of UniTR, as BEVFusion and CenterPoint have one)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ndformer.framework.bev_grid import BEVGrid
from ndformer.framework.errors import DataError
from ndformer.framework.registry import NECKS
from ndformer.framework.registry.ranges import Few, Finite, Positive, SomeShare, Width
from ndformer.framework.tokens import TokenSet

EPS = 1e-3


def map_of(tokens: TokenSet, field: BEVGrid, patches: bool = False) -> Tensor:
    """(B, C, ny, nx) the pillars at their cells (the first two axes of their positions), 0 elsewhere. With `patches`,
    the mean of those of cameras is added in each cell where some stand."""
    x, B = tokens.features, tokens.features.shape[0]
    at = field.to_cells(tokens.where.positions.expand(B, -1, -1))
    kept = field.contains(at)
    kept = kept if tokens.where.valid is None else kept & tokens.where.valid
    cells = field.shape[0] * field.shape[1]
    number = field.flat_index(at) + cells * torch.arange(B, device=x.device)[:, None]  # (B, N)
    pillar = kept if tokens.modality is None else kept & (tokens.modality == 0)
    place = number.flatten()  # all are put, what is not meant as nothing: to choose would make a GPU wait

    def summed(chosen: Tensor) -> Tensor:
        meant = torch.where(chosen[..., None], x, 0).flatten(0, 1)
        return x.new_zeros(B * cells, x.shape[2]).index_put((place,), meant, accumulate=True)

    total = summed(pillar)
    if patches:
        others = kept & ~pillar
        count = number.new_zeros(B * cells).index_put((place,), others.flatten().long(), accumulate=True)
        total = total + summed(others) / count.clamp(min=1)[:, None]
    return total.unflatten(0, (B, *field.shape)).permute(0, 3, 1, 2)


class MapNorm(nn.BatchNorm2d):
    """Batch norm; the first 1 / momentum batches are averaged evenly, as short trainings need it."""

    def __init__(self, channels: int, momentum: float) -> None:
        super().__init__(channels, EPS, momentum)
        self.last = momentum
        self.batches: int | None = None  # so far; None: not known
        self.register_load_state_dict_post_hook(_loaded)

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            if self.batches is None:  # asked once: reading the count makes a GPU wait
                assert self.num_batches_tracked is not None
                self.batches = int(self.num_batches_tracked)
            self.batches += 1
            self.momentum = max(self.last, 1 / self.batches)
        return super().forward(input)


def _loaded(norm: MapNorm, keys: object) -> None:
    norm.batches = None


class Residual(nn.Module):
    """Two convolutions, and the input beside them; `down`: through one of 1 x 1."""

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
    """Pillars on a map of `cell` metres from `low` to `high` (x, y), then stages of residual blocks: `blocks[i]` of
    `widths[i]` channels, the first of them with `strides[i]`. Each stage's map is brought to `stride` with `up`
    channels, and they are laid on each other.

    The defaults are UniTR's. `patches`: patches of cameras are put where they stand, too; UniTR leaves them out, as
    pillars have looked at them. `norm_momentum` is of batch norms.
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
            raise ValueError("blocks, strides and widths have one number per stage, one or more of them")
        shape = (round((high[1] - low[1]) / cell), round((high[0] - low[0]) / cell))
        self.field, self.patches = BEVGrid(low, cell, shape), patches
        self.stages, self.ups, total = nn.ModuleList(), nn.ModuleList(), 1
        channels = dim
        for count, factor, width in zip(blocks, strides, widths):
            total *= factor
            down, more = (stride // total, 1) if total < stride else (1, total // stride)
            if shape[0] % total or shape[1] % total or stride * more != total * down:
                raise ValueError(
                    f"a map of {shape[1]} x {shape[0]} cells cannot have stages of stride {total} brought to {stride}: "
                    "take a range, a cell and strides that divide each other"
                )
            first = [Residual(channels, width, factor, True, norm_momentum)]
            rest = [Residual(width, width, 1, False, norm_momentum) for _ in range(count - 1)]
            self.stages.append(nn.Sequential(*first, *rest))
            resized = (
                nn.Conv2d(width, up, down, down, bias=False)
                if total < stride
                else nn.ConvTranspose2d(width, up, more, more, bias=False)
            )
            self.ups.append(nn.Sequential(resized, MapNorm(up, norm_momentum), nn.ReLU()))
            channels = width
        self.width = up * len(blocks)  # what heads get
        self.out = BEVGrid(low, cell * stride, (shape[0] // stride, shape[1] // stride))

    def forward(self, tokens: TokenSet) -> Tensor:
        """(B, width, ny / stride, nx / stride)."""
        x = map_of(tokens, self.field, self.patches)
        if self.training and x.shape[0] == 0:
            raise DataError("a batch without samples cannot be learnt from")
        maps = []
        for stage, up in zip(cast(list[nn.Module], self.stages), self.ups):
            x = stage(x)
            maps.append(up(x))
        return torch.cat(maps, 1)
