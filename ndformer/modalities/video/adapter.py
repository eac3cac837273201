"""Adapter that turns videos into tokens, one for each tubelet (a patch through several frames)."""

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
    from `start` (joint space and time of ViViT). Values in 0..1 are normalized by `mean` and `std`. Shorter clips are
    padded and masked.

    A class token comes first. `class_at` says where it stands: 'nowhere' gives it no position, 'origin' puts it at 0
    (the PaPE repository does so, with `start=1`), 'centre' at the mean position of the clip's tubelets, and 'auto'
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

    def resizing(self, size: tuple[int, int]) -> dict[str, Any]:
        return dict(type="EachFrame", transforms=[super().resizing(size)])

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        return tubelets(sample["inputs"]["video"].permute(0, 2, 3, 1).numpy(), self.tubelet)

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        frames = sample["inputs"]["video"].permute(0, 2, 3, 1).numpy()
        time, rows, columns = (side // size for side, size in zip(frames.shape, self.tubelet))
        return GridCanvas(frames, (time, rows, columns))

    def forward(self, videos: Tensor | list[Tensor]) -> TokenSet:
        lengths = [len(video) for video in videos]
        if isinstance(videos, list):
            sizes = {tuple(video.shape[1:]) for video in videos}
            if len(sizes) > 1:
                some = ", ".join(sorted(f"{h} x {w}" for _, h, w in sizes)[:3])
                raise ValueError(
                    f"videos of one batch must have frames of one size, got {some}: put a Resize in an EachFrame "
                    "before PackVideo"
                )
            flat = torch.stack([F.pad(v, (0, 0) * 3 + (0, max(lengths) - len(v))) for v in videos])
        else:
            flat = videos
        _, T, C, height, width = flat.shape
        wrong = next((n for n in lengths if n == 0 or n % self.tubelet[0]), T)
        if C != 3 or any(size % p for size, p in zip((wrong, height, width), self.tubelet)) or wrong == 0:
            raise ValueError(
                f"videos must have 3 channels, and frames, rows and columns divisible by tubelets of {self.tubelet}, "
                f"got {C} channels and {(wrong, height, width)}"
            )
        # one copy in the layout of the convolution, changed in place: allocations take longer than the computation
        exact = torch.promote_types(flat.dtype, self.mean.dtype)
        x = flat.transpose(1, 2).to(exact, copy=True, memory_format=torch.contiguous_format)  # (B, 3, T, H, W)
        x = x.sub_(self.mean[:, None]).div_(self.std[:, None])
        x = self.project(x.to(self.project.weight.dtype))  # (B, dim, t, rows, columns)
        t, rows, columns = x.shape[2:]
        x = x.flatten(2).transpose(1, 2)  # (B, N, dim)
        axes = [torch.arange(n, dtype=torch.float32, device=x.device) + self.start for n in (t, rows, columns)]
        positions = torch.cartesian_prod(*axes)[None]  # (1, N, 3)
        valid = None
        if min(lengths) < T:
            steps = torch.tensor(lengths, device=x.device) // self.tubelet[0]  # (B,)
            valid = (positions[..., 0] - self.start) < steps[:, None]  # (B, N)
        return self.with_tokens(x, positions, valid, None if valid is not None else (t, rows, columns))
