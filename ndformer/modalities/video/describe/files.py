"""Description of a video file in numbers, with a check of its claims."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.describe import CONTENT, NO, Describer, Description
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.video.formats.files import ENDINGS, Backend, VideoFile, installed
from ndformer.modalities.video.formats.frames import FrameFolder, is_frames

MAX_FRAMES = 2000  # frames that are checked


@DESCRIBERS.register_module()
class VideoContent(Describer):
    endings = ENDINGS

    def claim(self, path: Path, begin: bytes) -> int:
        if path.is_dir():
            return CONTENT if is_frames(path) else NO
        return super().claim(path, begin)

    def describe(self, path: Path, rows: int) -> Description:
        return _frames(path, rows) if path.is_dir() else _video(path, rows)


def _frames(path: Path, rows: int) -> Description:
    folder = FrameFolder(path)
    names = folder.names()
    facts = dict(format="folder of frames", bytes=sum((path / name).stat().st_size for name in names)) | folder.facts()
    sizes = {foreign.image_size(path / name) for name in names[:MAX_FRAMES]}
    odd = [f"its frames have {len(sizes)} sizes, and those of a video have one"] if len(sizes) > 1 else []
    numbers = [re.findall(r"\d+", name)[-1:] for name in names]
    steps = {int(b[0]) - int(a[0]) for a, b in zip(numbers, numbers[1:]) if a and b}
    odd += ["numbers are left out between its frames"] if steps - {1} else []
    return facts, odd, [dict(frame=i, name=name) for i, name in enumerate(names[:rows])]


def _video(path: Path, rows: int) -> Description:
    backend: Backend = "pyav" if "pyav" in installed() else "auto"  # PyAV gives more facts
    video = VideoFile(path, backend)
    facts = video.facts()
    report: dict[str, Any] = dict(format="video") | facts
    claimed, rate = facts["frames"], facts["frames_per_second"]
    report |= dict(seconds=round(claimed / rate, 3) if rate else None)
    odd = []
    frames, _ = video.frames(range(min(rows, max(1, claimed))))
    if claimed > 1:
        last = min(claimed, MAX_FRAMES) - 1
        try:
            video.frames([last])
        except DataError as error:
            reason = str(error).removeprefix(f"{path} ").removesuffix(": replace it or remove it")
            odd.append(f"it says to have {claimed} frames, but at frame {last} it {reason}")
    if facts.get("streams", 1) > 1:
        odd.append(f"it has {facts['streams']} streams, of which the one that players choose is read")
    if not 1 <= rate <= 240:
        odd.append(f"{rate:g} frames a second are unlikely")
    if len(frames) > 1 and (frames == frames[:1]).all():
        odd.append(f"the first {len(frames)} frames are the same")
    mean = frames.mean((1, 2)).round(1)
    first = [dict(frame=i) | dict(zip("rgb", color)) for i, color in enumerate(np.asarray(mean).tolist())]
    return report, odd, first
