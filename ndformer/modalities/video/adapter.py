"""Adapter that turns videos into tokens, one for each tubelet (a patch through several frames)."""

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
from ndformer.framework.packing import grid_cells
from ndformer.framework.pictures.canvas import Canvas, GridCanvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Few, Finite, Offset, Positive, Width
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.image.transforms.images import RGB_MEAN, RGB_STD
from ndformer.modalities.video.formats.files import ENDINGS
from ndformer.modalities.video.formats.frames import film, is_frames, to_video
from ndformer.modalities.video.pictures.tokens import tubelets


@MODALITIES.register_module()
class Tubelets(Adapter):
    """Turn frames (B, T, 3, H, W) uint8, or a list of (T, 3, H, W), into one token for each `tubelet`.

    A tubelet has a size of (frames, rows, columns). The position of a token is (time, row, column), counted in tubelets
    from `start` (joint space and time of ViViT). Values from 0 to 255, of any dtype, are divided by 255 and
    normalized by `mean` and `std`. A list of clips that differ in size or length becomes one packed row.

    A class token comes first. `class_at` says where it stands: 'nowhere' gives it no position, 'origin' puts it at 0
    (the PaPE repository does so, with `start=1`), 'center' at the mean position of the clip's tubelets, and 'auto'
    where the encoding of the model reads it best.
    """

    endings = ENDINGS  # of the files that open() reads
    axes = ("time", "row", "column")
    more_tokens = "Set a smaller `tubelet` of the modality, or more or larger frames in the transforms of each loader."

    def __init__(
        self,
        dim: Width,
        tubelet: tuple[Few, Few, Few] = (2, 16, 16),
        class_token: bool = True,
        class_at: ClassPosition = "nowhere",
        start: Offset = 0,
        mean: Sequence[Finite] = RGB_MEAN,
        std: Sequence[Positive] = RGB_STD,
    ) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        if len(tubelet) != 3 or min(tubelet) < 1:
            raise ValueError(f"tubelet must be frames, rows and columns, each 1 or more, got {tuple(tubelet)}")
        time, rows, columns = tubelet
        self.tubelet, self.start = (time, rows, columns), start
        self.project = nn.Conv3d(3, dim, kernel_size=self.tubelet, stride=self.tubelet)
        self.add_tokens(dim, class_token, class_at=class_at)
        self.register_buffer("mean", 255 * torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", 255 * torch.tensor(std)[:, None, None], persistent=False)

    def open(self, path: Path) -> Sample:
        return dict(video=film(path))

    def from_memory(self, value: Any) -> Sample:
        return dict(video=to_video(value))

    def is_sample(self, folder: Path) -> bool:
        return is_frames(folder)

    @property
    def position_dims(self) -> int:
        return 3

    @property
    def patch_sides(self) -> tuple[int, int]:
        return self.tubelet[1], self.tubelet[2]

    def count_tokens(self, size: tuple[int, ...]) -> int:
        """Return the number of tokens of a clip (frames, height, width)."""
        return len(self.tokens) + math.prod(side // part for side, part in zip(size, self.tubelet))

    def resizing(self, size: tuple[int, int]) -> dict[str, Any]:
        return dict(type="EachFrame", transforms=[super().resizing(size)])

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        return tubelets(sample["inputs"]["video"].permute(0, 2, 3, 1).numpy(), self.tubelet)

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        frames = sample["inputs"]["video"].permute(0, 2, 3, 1).numpy()
        time, rows, columns = (side // size for side, size in zip(frames.shape, self.tubelet))
        return GridCanvas(frames, (time, rows, columns))

    def forward(self, videos: Tensor | list[Tensor]) -> TokenSet:
        if isinstance(videos, list):
            for video in videos:
                self._check(video.shape)
            if len({video.shape for video in videos}) > 1:
                return self._pack(videos)
            videos = torch.stack(videos)
        self._check(videos.shape[1:])
        # one copy in the layout of the convolution, changed in place: allocations take longer than the computation
        exact = torch.promote_types(videos.dtype, self.mean.dtype)
        x = videos.transpose(1, 2).to(exact, copy=True, memory_format=torch.contiguous_format)  # (B, 3, T, H, W)
        x = x.sub_(self.mean[:, None]).div_(self.std[:, None])
        x = self.project(x.to(self.project.weight.dtype))  # (B, dim, t, rows, columns)
        grid = tuple(x.shape[2:])
        x, positions = x.flatten(2).transpose(1, 2), self._positions(grid, x.device)[None]  # (B, N, dim), (1, N, 3)
        return self.with_tokens(x, positions, grid=grid)

    def _pack(self, videos: list[Tensor]) -> TokenSet:
        """Return the tokens of clips of different sizes as one packed row."""
        grids = [tuple(side // part for side, part in zip((v.shape[0], *v.shape[2:]), self.tubelet)) for v in videos]
        # clips of one size are neighbors in the row, so that attention cuts it without copying
        order = sorted(range(len(videos)), key=lambda i: (math.prod(grids[i]), grids[i]))
        pixels = torch.cat([self._pixels(videos[i]) for i in order])  # (T, 3 frames rows columns)
        x = F.linear(pixels.to(self.project.weight.dtype), self.project.weight.flatten(1), self.project.bias)
        grids = [grids[i] for i in order]
        cells, _, _ = grid_cells(grids, x.device)
        return self.with_tokens_packed(x, cells.float() + self.start, [math.prod(grid) for grid in grids], order, grids)

    def _pixels(self, video: Tensor) -> Tensor:
        """Return the normalized values of each tubelet (t r c, 3 frames rows columns) of a clip (T, 3, H, W)."""
        frames, rows, columns = self.tubelet
        x = (video.to(torch.promote_types(video.dtype, self.mean.dtype)) - self.mean) / self.std
        cut = x.unflatten(3, (-1, columns)).unflatten(2, (-1, rows)).unflatten(0, (-1, frames))
        return cut.permute(0, 3, 5, 2, 1, 4, 6).flatten(3).flatten(0, 2)

    def _positions(self, grid: tuple[int, ...], device: torch.device) -> Tensor:
        """Return the positions (t r c, 3) of tubelets that form a grid."""
        return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float32, device=device) + self.start for n in grid))

    def _check(self, shape: Sequence[int]) -> None:
        """Raise unless a clip has the shape (T, 3, H, W) with sides that tubelets divide."""
        frames, channels, *sides = shape
        if channels != 3 or frames == 0 or any(side % part for side, part in zip((frames, *sides), self.tubelet)):
            raise ValueError(
                f"videos must have 3 channels, and frames, rows and columns divisible by tubelets of {self.tubelet}, "
                f"got {channels} channels and {(frames, *sides)}"
            )
