"""Images to tokens: one per patch, at its row and column."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ndformer.framework.registry import MODALITIES
from ndformer.framework.tokens import TokenSet, Where


@MODALITIES.register_module()
class ImagePatches(nn.Module):
    """(B, channels, height, width) -> tokens of patch x patch pixels at (row, column), counted in patches from `start`.

    Class and register tokens come first and have no place of their own; with `class_at='origin'` they stand at 0, the
    PaPE repository's way (with `start=1`). Any size that divides into patches works, also other than `size`.
    """

    def __init__(
        self,
        dim: int,
        patch: int = 16,
        channels: int = 3,
        class_token: bool = True,
        registers: int = 0,
        class_at: Literal["nowhere", "origin"] = "nowhere",
        start: int = 0,
    ) -> None:
        super().__init__()
        self.patch, self.channels, self.start, self.prefix = patch, channels, start, int(class_token) + registers
        self.placed_prefix = class_at == "origin"
        self.project = nn.Conv2d(channels, dim, kernel_size=patch, stride=patch)
        self.tokens = nn.Parameter(torch.zeros(self.prefix, dim))  # class token, registers
        nn.init.trunc_normal_(self.tokens, std=0.02)

    def forward(self, images: Tensor) -> TokenSet:
        B, C, height, width = images.shape
        if self.channels != C or height % self.patch or width % self.patch:
            raise ValueError(
                f"images must have {self.channels} channels and sides that patches of {self.patch} divide, "
                f"got {C} x {height} x {width}"
            )
        x = self.project(images)  # (B, dim, rows, columns)
        grid = (x.shape[2], x.shape[3])
        x = x.flatten(2).transpose(1, 2)
        axes = [torch.arange(n, dtype=torch.float32, device=x.device) + self.start for n in grid]
        positions = torch.cartesian_prod(*axes)[None]  # (1, rows columns, 2)
        if self.prefix == 0:
            return TokenSet(x, Where(positions, grid=grid))
        x = torch.cat([self.tokens.to(x.dtype).expand(B, -1, -1), x], dim=1)
        positions = torch.cat([positions.new_zeros(1, self.prefix, 2), positions], dim=1)
        placed = None if self.placed_prefix else torch.arange(positions.shape[1], device=x.device)[None] >= self.prefix
        return TokenSet(x, Where(positions, placed=placed, grid=grid))
