"""What a file of video holds, in numbers, and whether it holds what it says."""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.describe import Describer, Told
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.video.formats.files import ENDINGS, Backend, VideoFile, installed

LOOKED_AT = 2000  # frames, at most


@DESCRIBERS.register_module()
class VideoContent(Describer):
    endings = ENDINGS

    def tell(self, path: Path, rows: int) -> Told:
        backend: Backend = "pyav" if "pyav" in installed() else "auto"  # which says more
        video = VideoFile(path, backend)
        facts = video.facts()
        found: dict[str, Any] = dict(format="video") | facts
        claimed, rate = facts["frames"], facts["frames_per_second"]
        found |= dict(seconds=round(claimed / rate, 3) if rate else None)
        odd = []
        frames, _ = video.frames(range(min(rows, max(1, claimed))))
        if claimed > 1:
            last = min(claimed, LOOKED_AT) - 1
            try:
                video.frames([last])
            except DataError as error:
                reason = str(error).removeprefix(f"{path} ").removesuffix(": replace it or take it away")
                odd.append(f"it says to have {claimed} frames, but at frame {last} it {reason}")
        if facts.get("streams", 1) > 1:
            odd.append(f"it has {facts['streams']} streams, of which the one that players choose is read")
        if not 1 <= rate <= 240:
            odd.append(f"{rate:g} frames a second are unlikely")
        if len(frames) > 1 and (frames == frames[:1]).all():
            odd.append(f"the first {len(frames)} frames are the same")
        mean = frames.mean((1, 2)).round(1)
        first = [dict(frame=i) | dict(zip("rgb", colour)) for i, colour in enumerate(np.asarray(mean).tolist())]
        return found, odd, first
