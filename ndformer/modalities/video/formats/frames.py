"""Raw frames: a folder of pictures that is a video, img_00001.jpg, img_00002.jpg and so on."""

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

FEWEST = 2  # pictures of a folder that is a video
FLOW = ("flow_", "x_", "y_")  # of programs that lay the motion beside the frames


@dataclass(frozen=True)
class FrameFolder:
    """Pictures in the order of the numbers in their names, of which nothing is kept."""

    path: Path

    def names(self) -> list[str]:
        found = [one.name for one in self.path.iterdir() if one.suffix.lower() in foreign.PICTURES]
        return sorted((n for n in found if not n.startswith((".", *FLOW))), key=_natural)

    def frames(self, wanted: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        """As VideoFile.frames."""
        names, wanted = self.names(), sorted(set(map(int, wanted)))
        if not wanted or wanted[0] < 0:
            raise ValueError(f"frames are numbered from 0, got {wanted}")
        numbers = [number for number in wanted if number < len(names)]
        if not numbers:
            raise DataError(f"{self.path} has {len(names)} frames, and {wanted[0]} is none of them: take it away")
        width, height = foreign.size_of(self.path / names[numbers[0]])
        foreign.check_size(self.path, 3 * width * height * len(numbers))
        found = np.empty((len(numbers), height, width, 3), np.uint8)
        for place, number in enumerate(numbers):
            frame = np.asarray(foreign.picture(self.path / names[number]))
            if frame.shape != found.shape[1:]:
                raise DataError(
                    f"{self.path / names[number]} has {frame.shape[1]} x {frame.shape[0]} pixels and "
                    f"{names[numbers[0]]} {width} x {height}: frames of a video are of one size"
                )
            found[place] = frame
        return found, numbers

    def facts(self) -> dict[str, Any]:
        """As VideoFile.facts; nobody says how many frames a second there are."""
        names = self.names()
        width, height = foreign.size_of(self.path / names[0])
        return dict(frames=len(names), height=height, width=width)


@dataclass(frozen=True, eq=False)
class HeldFrames:
    """Frames in memory."""

    pixels: np.ndarray  # (n, H, W, 3) uint8

    def frames(self, wanted: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        """As VideoFile.frames."""
        numbers = [number for number in sorted(set(map(int, wanted))) if number < len(self.pixels)]
        if not numbers or numbers[0] < 0:
            raise DataError(f"a video of {len(self.pixels)} frames was asked for {sorted(wanted)}")
        return self.pixels[numbers], numbers

    def facts(self) -> dict[str, Any]:
        """As VideoFile.facts; nobody says how many frames a second there are."""
        return dict(zip(("frames", "height", "width"), self.pixels.shape))


Film = VideoFile | FrameFolder | HeldFrames


def is_frames(folder: Path) -> bool:
    """Whether a folder is a video: of pictures, with neither folders nor videos beside them."""
    pictures = 0
    for one in folder.iterdir():
        if one.name.startswith("."):
            continue
        if one.suffix.lower() in ENDINGS or one.is_dir():
            return False
        pictures += one.suffix.lower() in foreign.PICTURES
    return pictures >= FEWEST


def film(path: Path, backend: Backend = "auto", timeout: float = PATIENCE) -> Film:
    return FrameFolder(path) if path.is_dir() else VideoFile(path, backend, timeout)


def held_film(value: Any) -> HeldFrames:
    """Of an array (frames, rows, columns, 3) or a tensor (frames, 3, rows, columns)."""
    pixels = channels_last(value) if isinstance(value, Tensor) else value
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 4 or pixels.shape[-1] != 3 or not pixels.size:
        got = f"{tuple(value.shape)}" if isinstance(value, (Tensor, np.ndarray)) else f"a {type(value).__name__}"
        raise ValueError(
            f"a video is an array (frames, rows, columns, 3) or a tensor (frames, 3, rows, columns): {got}"
        )
    return HeldFrames(to_uint8(pixels))


def _natural(name: str) -> list[Any]:
    """Frame 10 comes after frame 9."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d{1,18})", name))]
