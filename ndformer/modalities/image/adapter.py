"""Adapter that turns images into tokens, one for each patch."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.adapter import Adapter, ClassPosition
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.packing import unpacked
from ndformer.framework.pictures.canvas import Canvas, GridCanvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Few, FewOrNone, Finite, Offset, Width
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.image.formats.files import ENDINGS, open_image
from ndformer.modalities.image.formats.in_memory import to_image
from ndformer.modalities.image.pictures.tokens import separate_patches


@MODALITIES.register_module()
class ImagePatches(Adapter):
    """Turn images (B, channels, height, width) into one token for each patch of `patch` x `patch` pixels.

    A list of images (channels, height, width) of different sizes becomes one packed row; `packed=False` pads them to
    the largest instead.

    The position of a token is its (row, column), counted in patches from `start`. Height and width may be any multiple
    of `patch`. Class and register tokens come first. `class_at` says where they stand: 'nowhere' gives them no
    position, 'origin' puts them at 0 (the PaPE repository does so, with `start=1`), 'centre' at the mean position of
    the patches, and 'auto' where the encoding of the model reads them best.

    `plane` places the image in a space shared with other modalities. It has three vectors (x, y, z): the position of
    the first patch, the step to the next row, and the step to the next column.
    """

    endings = ENDINGS  # of the files that open() reads
    axes = ("row", "column")
    more_tokens = "Set a smaller `patch` of the modality, or a larger size in the transforms of each loader."

    def __init__(
        self,
        dim: Width,
        patch: Few = 16,
        channels: Width = 3,
        class_token: bool = True,
        registers: FewOrNone = 0,
        class_at: ClassPosition = "nowhere",
        start: Offset = 0,
        plane: Sequence[Sequence[Finite]] | None = None,
        packed: bool = True,
    ) -> None:
        super().__init__()
        if plane is not None and (len(plane) != 3 or len({len(vector) for vector in plane}) != 1):
            raise ValueError(f"plane must be three vectors (first patch, row step, column step), got {plane}")
        self.plane = plane
        if plane is not None:
            self.axes = ("x", "y", "z") if len(plane[0]) == 3 else ()
        self.patch, self.channels, self.start, self.packed = patch, channels, start, packed
        self.project = nn.Conv2d(channels, dim, kernel_size=patch, stride=patch)
        self.add_tokens(dim, class_token, registers, class_at)

    def open(self, path: Path) -> Sample:
        return dict(image=open_image(path, self.mode))

    def from_memory(self, value: Any) -> Sample:
        return dict(image=to_image(value, self.mode))

    @property
    def mode(self) -> str:
        """The Pillow mode of images with `channels` channels."""
        return "RGB" if self.channels == 3 else "L"

    @property
    def position_dims(self) -> int:
        return 2 if self.plane is None else len(self.plane[0])

    @property
    def patch_sides(self) -> tuple[int, int]:
        return self.patch, self.patch

    def count_tokens(self, size: tuple[int, ...]) -> int:
        return len(self.tokens) + math.prod(side // self.patch for side in size)

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        return [separate_patches(pack.picture(sample, 0), (self.patch, self.patch))]

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        """Draw on the original photo where the sample has one; it often has more pixels than the model's input."""
        rows, columns = (side // self.patch for side in sample["inputs"]["image"].shape[-2:])
        return GridCanvas(pack.picture(sample.get("photo", sample), 0)[None], (rows, columns))

    def forward(self, images: Tensor | list[Tensor]) -> TokenSet:
        """Return the tokens of images, with `where.grid` if they have one size, as one packed row if they do not."""
        self._check(images)
        if isinstance(images, Tensor):
            x = self.project(images)  # (B, dim, rows, columns)
            grid = (x.shape[2], x.shape[3])
            positions = self._positions(grid, x.device)[None]  # (1, rows columns, 2)
            return self.with_tokens(x.flatten(2).transpose(1, 2), positions, grid=grid if self.plane is None else None)
        grids = [(image.shape[1] // self.patch, image.shape[2] // self.patch) for image in images]
        # images of one size are neighbors in the row, so that attention cuts it without copying
        order = sorted(range(len(images)), key=lambda i: (math.prod(grids[i]), grids[i]))
        grids = [grids[i] for i in order]
        pixels = torch.cat([self._patches(images[i]) for i in order])  # (T, channels patch patch)
        x = F.linear(pixels, self.project.weight.flatten(1), self.project.bias)  # equal to the convolution
        places = {grid: self._positions(grid, x.device) for grid in set(grids)}
        positions = torch.cat([places[grid] for grid in grids])
        known = grids if self.plane is None else None
        tokens = self.with_tokens_packed(x, positions, [r * c for r, c in grids], order, known)
        return tokens if self.packed else unpacked(tokens, len(images))

    def _patches(self, image: Tensor) -> Tensor:
        """Return the pixels of each patch (rows columns, channels patch patch) of an image (channels, H, W)."""
        cut = image.unflatten(2, (-1, self.patch)).unflatten(1, (-1, self.patch))  # (C, rows, patch, columns, patch)
        return cut.permute(1, 3, 0, 2, 4).flatten(2).flatten(0, 1)

    def _positions(self, grid: tuple[int, int], device: torch.device) -> Tensor:
        """Return the positions (rows columns, P) of the patches of a grid."""
        axes = [torch.arange(n, dtype=torch.float32, device=device) + self.start for n in grid]
        positions = torch.cartesian_prod(*axes)
        if self.plane is None:
            return positions
        first, *steps = tensor_like(torch.tensor(self.plane, dtype=torch.float32), positions)
        return first + positions @ torch.stack(steps)

    def _check(self, images: Tensor | list[Tensor]) -> None:
        stacked = isinstance(images, Tensor)
        for image in [images] if isinstance(images, Tensor) else images:
            if image.dim() != 3 + stacked or not image.is_floating_point():
                raise ValueError(
                    "images must be (batch, channels, height, width), or a list of (channels, height, width), of "
                    f"normalized floats, as PackImage makes them, got {tuple(image.shape)} of {image.dtype}. "
                    "images[None] adds the batch axis, images / 255 makes floats"
                )
            C, height, width = image.shape[-3:]
            if self.channels != C or height % self.patch or width % self.patch or height * width == 0:
                raise ValueError(
                    f"images must have {self.channels} channels and sides divisible by the patch size {self.patch}, "
                    f"got {C} x {height} x {width}. KeepAspect(longest=..., multiple_of={self.patch}) resizes images "
                    "to such sides"
                )
