"""Videos stored as a folder of images: img_00001.jpg, img_00002.jpg and so on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.image.formats.in_memory import channels_last, to_uint8
from ndformer.modalities.video.formats.files import ENDINGS, PATIENCE, Backend, VideoFile

MIN_IMAGES = 2  # images of a folder that is a video
FLOW = ("flow_", "x_", "y_")  # prefixes of optical flow images


@dataclass(frozen=True)
class FrameFolder:
    """A folder of images, in the order of the numbers in their names; nothing is kept in memory."""

    path: Path

    def names(self) -> list[str]:
        names = [name for name in foreign.names_in(self.path) if Path(name).suffix.lower() in foreign.PICTURES]
        return sorted((n for n in names if not n.startswith((".", *FLOW))), key=_natural)

    def frames(self, indices: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        """Return frames as VideoFile.frames does."""
        names, indices = self.names(), sorted(set(map(int, indices)))
        if not indices or indices[0] < 0:
            raise ValueError(f"frame numbers must be 0 or more, got {indices}")
        numbers = [number for number in indices if number < len(names)]
        if not numbers:
            raise DataError(f"{self.path} has frames 0 to {len(names) - 1}, got frame {indices[0]}. Remove the video")
        width, height = foreign.image_size(self.path / names[numbers[0]])
        foreign.check_size(self.path, 3 * width * height * len(numbers))
        pixels = np.empty((len(numbers), height, width, 3), np.uint8)
        for place, number in enumerate(numbers):
            frame = np.asarray(foreign.picture(self.path / names[number]))
            if frame.shape != pixels.shape[1:]:
                raise DataError(
                    f"frames of a video must have one size, got {frame.shape[1]} x {frame.shape[0]} pixels in "
                    f"{self.path / names[number]} and {width} x {height} in {names[numbers[0]]}. Resize the frames"
                )
            pixels[place] = frame
        return pixels, numbers

    def facts(self) -> dict[str, Any]:
        """Return facts as VideoFile.facts does, without a frame rate."""
        names = self.names()
        if not names:
            raise DataError(f"{self.path} has no frames. Unpack the video again, or remove it")
        width, height = foreign.image_size(self.path / names[0])
        return dict(frames=len(names), height=height, width=width)


@dataclass(frozen=True, eq=False)
class FramesInMemory:
    """Frames in memory."""

    pixels: np.ndarray  # (n, H, W, 3) uint8

    def frames(self, indices: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        """Return frames as VideoFile.frames does."""
        numbers = [number for number in sorted(set(map(int, indices))) if number < len(self.pixels)]
        if not numbers or numbers[0] < 0:
            raise DataError(
                f"frame numbers must be below {len(self.pixels)}, the length of the video, got {sorted(indices)}"
            )
        return self.pixels[numbers], numbers

    def facts(self) -> dict[str, Any]:
        """Return facts as VideoFile.facts does, without a frame rate."""
        return dict(zip(("frames", "height", "width"), self.pixels.shape))


Film = VideoFile | FrameFolder | FramesInMemory


def is_frames(folder: Path) -> bool:
    """Return whether a folder is a video: images, without folders and videos among them."""
    images = 0
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.suffix.lower() in ENDINGS or path.is_dir():
            return False
        images += path.suffix.lower() in foreign.PICTURES
    return images >= MIN_IMAGES


def film(path: Path, backend: Backend = "auto", timeout: float = PATIENCE) -> Film:
    return FrameFolder(path) if foreign.is_dir(path) else VideoFile(path, backend, timeout)


def to_video(value: Any) -> FramesInMemory:
    """Convert an array (frames, rows, columns, 3) or a tensor (frames, 3, rows, columns) to a video."""
    pixels = channels_last(value) if isinstance(value, Tensor) else value
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 4 or pixels.shape[-1] != 3 or not pixels.size:
        got = f"{tuple(value.shape)}" if isinstance(value, (Tensor, np.ndarray)) else f"a {type(value).__name__}"
        raise ValueError(
            f"a video must be an array (frames, rows, columns, 3) or a tensor (frames, 3, rows, columns), got {got}"
        )
    return FramesInMemory(to_uint8(pixels))


def _natural(name: str) -> list[Any]:
    """Return a sort key by which frame 10 comes after frame 9."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d{1,18})", name))]
