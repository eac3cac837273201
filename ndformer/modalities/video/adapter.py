"""Videos to tokens: one per tubelet, a patch through some frames, at its time, row and column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.data.dataset import Sample
from ndformer.framework.engine.config.text import spelled
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODALITIES
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.image.transforms.images import RGB_MEAN, RGB_STD
from ndformer.modalities.video.formats.files import ENDINGS, VideoFile
from ndformer.modalities.video.pictures.tokens import tubelets


@MODALITIES.register_module()
class Tubelets(nn.Module):
    """Frames (B, T, 3, H, W) uint8, or a list of (T, 3, H, W) of several lengths -> tokens of `tubelet` (frames, rows,
    columns) at (time, row, column), counted in tubelets from `start` (ViViT's joint space and time).

    Values in 0..1 are normalised by `mean` and `std`. Shorter clips are padded, which changes nothing for them. A class
    token comes first and has no place of its own; with `class_at='origin'` it stands at 0, the PaPE repository's way
    (with `start=1`).
    """

    endings = ENDINGS  # files that open() reads

    def __init__(
        self,
        dim: int,
        tubelet: tuple[int, int, int] = (2, 16, 16),
        class_token: bool = True,
        class_at: Literal["nowhere", "origin"] = "nowhere",
        start: int = 0,
        mean: Sequence[float] = RGB_MEAN,
        std: Sequence[float] = RGB_STD,
    ) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        if len(tubelet) != 3 or min(tubelet) < 1:
            raise ValueError(f"tubelet is frames, rows and columns, each 1 or more, got {tuple(tubelet)}")
        time, rows, columns = tubelet
        self.tubelet, self.start, self.placed_prefix = (time, rows, columns), start, class_at == "origin"
        self.project = nn.Conv3d(3, dim, kernel_size=self.tubelet, stride=self.tubelet)
        self.tokens = nn.Parameter(torch.zeros(int(class_token), dim))
        nn.init.trunc_normal_(self.tokens, std=0.02)
        self.register_buffer("mean", 255 * torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", 255 * torch.tensor(std)[:, None, None], persistent=False)

    @staticmethod
    def open(path: Path) -> Sample:
        """What a dataset reads of one video, from a file of it."""
        return dict(video=VideoFile(path))

    def check_file(self, video: Tensor, path: Path, transforms: Sequence[dict[str, Any]], at: str) -> None:
        """Tubelets must divide what the transforms `at` a place of the config make of a file; else a Resize helps."""
        sides, patch = video.shape[2:], self.tubelet[1:]
        if not any(side % p for side, p in zip(sides, patch)):
            return
        near = tuple(max(1, round(side / p)) * p for side, p in zip(sides, patch))
        *before, pack = transforms
        resize = dict(type="EachFrame", transforms=[dict(type="Resize", size=near)])
        text = spelled(dict(transforms=[*before, resize, pack]))
        raise DataError(
            f"{path} has {sides[0]} x {sides[1]} pixels, which tubelets of {patch[0]} x {patch[1]} do not divide: have "
            f'it resized, --cfg-options "{at}={" ".join(text.partition(" = ")[2].split())}"'
        )

    def show(self, sample: Sample, pack: Any) -> list[np.ndarray]:
        """Pictures of the tokens of a packed sample, one for each frame."""
        return tubelets(sample["inputs"]["video"].permute(0, 2, 3, 1).numpy(), self.tubelet)

    def forward(self, videos: Tensor | list[Tensor]) -> TokenSet:
        lengths = [len(video) for video in videos]
        if isinstance(videos, list):
            sizes = {tuple(video.shape[1:]) for video in videos}
            if len(sizes) > 1:
                some = ", ".join(sorted(f"{h} x {w}" for _, h, w in sizes)[:3])
                raise ValueError(
                    f"videos of one batch have frames of one size, got {some}: put a Resize in an EachFrame before "
                    "PackVideo"
                )
            flat = torch.stack([F.pad(v, (0, 0) * 3 + (0, max(lengths) - len(v))) for v in videos])
        else:
            flat = videos
        _, T, C, height, width = flat.shape
        wrong = next((n for n in lengths if n == 0 or n % self.tubelet[0]), T)
        if C != 3 or any(size % p for size, p in zip((wrong, height, width), self.tubelet)) or wrong == 0:
            raise ValueError(
                f"videos must have 3 channels, and frames, rows and columns that tubelets of {self.tubelet} divide, "
                f"got {C} channels and {(wrong, height, width)}"
            )
        x = (flat - self.mean) / self.std  # (B, T, 3, H, W)
        x = self.project(x.to(self.project.weight.dtype).transpose(1, 2))  # (B, dim, t, rows, columns)
        t, rows, columns = x.shape[2:]
        x = x.flatten(2).transpose(1, 2)  # (B, N, dim)
        axes = [torch.arange(n, dtype=torch.float32, device=x.device) + self.start for n in (t, rows, columns)]
        positions = torch.cartesian_prod(*axes)[None]  # (1, N, 3)
        valid = None
        if min(lengths) < T:
            steps = torch.tensor(lengths, device=x.device) // self.tubelet[0]  # (B,)
            valid = (positions[..., 0] - self.start) < steps[:, None]  # (B, N)
        return self._with_class_token(x, positions, valid, None if valid is not None else (t, rows, columns))

    def _with_class_token(
        self, x: Tensor, positions: Tensor, valid: Tensor | None, grid: tuple[int, int, int] | None
    ) -> TokenSet:
        if len(self.tokens) == 0:
            return TokenSet(x, Where(positions, valid=valid, grid=grid))
        x = torch.cat([self.tokens.to(x.dtype).expand(len(x), -1, -1), x], dim=1)
        placed = None if self.placed_prefix else torch.arange(x.shape[1], device=x.device)[None] > 0
        valid = None if valid is None else F.pad(valid, (1, 0), value=True)
        return TokenSet(x, Where(F.pad(positions, (0, 0, 1, 0)), valid=valid, placed=placed, grid=grid))
