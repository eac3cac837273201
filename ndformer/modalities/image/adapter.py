"""Adapter that turns images into tokens, one for each patch."""

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.adapter import Adapter, ClassPosition
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.packing import grid_cells, unpacked
from ndformer.framework.pictures.canvas import Canvas, GridCanvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Few, FewOrNone, Finite, Offset, Rate, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.image.background import background
from ndformer.modalities.image.formats.files import ENDINGS, open_image
from ndformer.modalities.image.formats.in_memory import to_image
from ndformer.modalities.image.patch_sizes import resized_projection
from ndformer.modalities.image.pictures.tokens import separate_patches
from ndformer.modalities.image.token_drop import remaining, remaining_tokens


@MODALITIES.register_module()
class ImagePatches(Adapter):
    """Turn images (B, channels, height, width) into one token for each patch of `patch` x `patch` pixels.

    A list of images (channels, height, width) of different sizes becomes one packed row; `packed=False` pads them to
    the largest instead.

    The position of a token is its (row, column), counted in patches from `start`. Height and width may be any multiple
    of `patch`. Class and register tokens come first. `class_at` says where they stand: 'nowhere' gives them no
    position, 'origin' puts them at 0 (the PaPE repository does so, with `start=1`), 'center' at the mean position of
    the patches, and 'auto' where the encoding of the model reads them best.

    In training, `patch_sizes` cuts each batch into patches of one of these sizes, drawn at random, with the projection
    resized to it (FlexiViT); positions stay in units of `patch`, which is the size in evaluation. A single size is used
    in evaluation too. `drop_tokens` is the share of the patches of each image that training leaves out, at random; the
    rest has no grid. Both are for heads that pool tokens.

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
        patch_sizes: Sequence[Few] = (),
        drop_tokens: Rate = 0.0,
    ) -> None:
        super().__init__()
        if plane is not None and (len(plane) != 3 or len({len(vector) for vector in plane}) != 1):
            raise ValueError(f"plane must be three vectors (first patch, row step, column step), got {plane}")
        self.plane = plane
        if plane is not None:
            self.axes = ("x", "y", "z") if len(plane[0]) == 3 else ()
        self.patch, self.channels, self.start, self.packed = patch, channels, start, packed
        self.patch_sizes, self.drop_tokens = tuple(patch_sizes), drop_tokens
        self.project = nn.Conv2d(channels, dim, kernel_size=patch, stride=patch)
        self.add_tokens(dim, class_token, registers, class_at)

    def open(self, path: Path) -> Sample:
        return dict(image=open_image(path, self.mode))

    def from_memory(self, value: Any) -> Sample:
        return dict(image=to_image(value, self.mode))

    def likeness(self, sample: Sample) -> str:
        return background(sample["image"])

    @property
    def mode(self) -> str:
        """The Pillow mode of images with `channels` channels."""
        return "RGB" if self.channels == 3 else "L"

    @property
    def position_dims(self) -> int:
        return 2 if self.plane is None else len(self.plane[0])

    @property
    def patch_sides(self) -> tuple[int, int]:
        side = math.lcm(*self.patch_sizes) if self.training and self.patch_sizes else self.test_patch
        return side, side

    @property
    def test_patch(self) -> int:
        """The side of a patch in evaluation."""
        return self.patch_sizes[0] if len(self.patch_sizes) == 1 else self.patch

    @property
    def varies_tokens(self) -> bool:
        return bool(self.patch_sizes or self.drop_tokens)

    @property
    def gridless_option(self) -> str | None:
        return "plane" if self.plane is not None else "drop_tokens" if self.drop_tokens else None

    def count_tokens(self, size: tuple[int, ...]) -> int:
        """Return the number of tokens of an image of this size, in training the most."""
        patch = min(self.patch_sizes, default=self.patch) if self.training else self.test_patch
        count = math.prod(side // patch for side in size)
        return len(self.tokens) + (remaining(count, self.drop_tokens) if self._drops and count else count)

    @property
    def _drops(self) -> bool:
        return self.training and self.drop_tokens > 0

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        return [separate_patches(pack.picture(sample, 0), (self.test_patch, self.test_patch))]

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        """Draw on the original photo where the sample has one; it often has more pixels than the model's input."""
        rows, columns = (side // self.test_patch for side in sample["inputs"]["image"].shape[-2:])
        return GridCanvas(pack.picture(sample.get("photo", sample), 0)[None], (rows, columns))

    def forward(self, images: Tensor | list[Tensor]) -> TokenSet:
        """Return the tokens of images, with `where.grid` if they have one size, as one packed row if they do not."""
        self._check(images)
        size, has_grid = self._patch_size(), self.plane is None and not self._drops
        weight, bias = resized_projection(self.project.weight, size), self.project.bias
        if isinstance(images, Tensor):
            images = images.to(weight.dtype)
            x = self.project(images) if size == self.patch else F.conv2d(images, weight, bias, stride=size)
            grid = (x.shape[2], x.shape[3])  # of x (B, dim, rows, columns)
            axes = [torch.arange(n, device=x.device) for n in grid]
            # not cartesian_prod: in an exported graph it refuses one row or one column
            cells = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, 1)
            positions = self._positions(cells, grid, size)[None]
            x = x.flatten(2).transpose(1, 2)
            if self._drops:
                B, N, _ = x.shape
                index = remaining_tokens([N] * B, self.drop_tokens, x)
                x, positions = (t.expand(B, -1, -1).flatten(0, 1)[index].unflatten(0, (B, -1)) for t in (x, positions))
            return self.with_tokens(x, positions, grid=grid if has_grid else None)
        grids = [(image.shape[1] // size, image.shape[2] // size) for image in images]
        # images of one size are neighbors in the row, so that attention cuts it without copying
        order = sorted(range(len(images)), key=lambda i: (math.prod(grids[i]), grids[i]))
        grids = [grids[i] for i in order]
        cells, shapes, sample = grid_cells(grids, images[0].device)  # (T, 2), (T, 2), (T,)
        pixels = _patches([images[i] for i in order], size, cells, shapes, sample)  # (T, channels size size)
        positions, counts = self._positions(cells, shapes, size), [r * c for r, c in grids]
        if self._drops:
            index = remaining_tokens(counts, self.drop_tokens, pixels)
            pixels, positions = pixels[index], positions[index]
            counts = [remaining(count, self.drop_tokens) for count in counts]
        x = F.linear(pixels.to(weight.dtype), weight.flatten(1), bias)  # equal to the convolution
        tokens = self.with_tokens_packed(x, positions, counts, order, grids if has_grid else None)
        return tokens if self.packed else unpacked(tokens, len(images))

    def _patch_size(self) -> int:
        if self.training and len(self.patch_sizes) > 1:
            return self.patch_sizes[int(torch.randint(len(self.patch_sizes), ()))]
        return self.test_patch

    def _positions(self, cells: Tensor, shapes: Tensor | tuple[int, ...], size: int) -> Tensor:
        """Return the positions (T, P) of patches of `size` pixels, their centers.

        `cells` (T, 2) are rows and columns, `shapes` the numbers of rows and columns of the grid, or of each patch's.
        """
        positions = cells.float()
        if size != self.patch:
            positions = (positions + 0.5) * (size / self.patch) - 0.5
        positions = positions + self.start
        if self.plane is None:
            return positions
        first, *steps = tensor_like(torch.tensor(self.plane, dtype=torch.float32), positions)
        with without_autocast(positions):  # 16 bits cannot represent positions
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
            (C, height, width), side = image.shape[-3:], self.patch_sides[0]
            if self.channels != C or height % side or width % side or height * width == 0:
                raise ValueError(
                    f"images must have {self.channels} channels and sides divisible by the patch size {side}, got "
                    f"{C} x {height} x {width}. KeepAspect(longest=..., multiple_of={side}) resizes images to such "
                    "sides"
                )


def _patches(images: Sequence[Tensor], size: int, cells: Tensor, shapes: Tensor, sample: Tensor) -> Tensor:
    """Return the pixels (T, channels size size) of patches, given by grid_cells(), of images (channels, H, W).

    An image is a list of lines of `size` pixels, and a patch consists of some of them.
    """
    channels = images[0].shape[0]
    starts = list(accumulate((image.numel() // size for image in images[:-1]), initial=0))
    (row, column), (rows, columns) = cells.unbind(-1), shapes.unbind(-1)
    first = tensor_like(starts, cells)[sample] + row * size * columns + column  # (T,)
    line = torch.arange(channels * size, device=cells.device)  # of a patch
    channel, below = line // size, line % size
    index = first[:, None] + channel * (rows * size * columns)[:, None] + below * columns[:, None]
    lines = torch.cat([image.flatten() for image in images]).view(-1, size)
    return lines.index_select(0, index.flatten()).view(len(cells), -1)
