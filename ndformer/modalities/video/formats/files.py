"""Frames from a file of video, exactly those that were asked for. Every way that it can be wrong is one sentence."""

import functools
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.video.formats.backends import FRAMES
from ndformer.modalities.video.formats.process import DecodingError, decoder

ENDINGS = (".avi", ".divx", ".mp4", ".m4v", ".mov", ".qt", ".3gp", ".3g2", ".f4v", ".mkv", ".webm", ".mpg", ".mpeg")
ENDINGS += (".mpe", ".m2v", ".vob", ".ts", ".mts", ".m2ts", ".ogv", ".wmv", ".asf", ".flv")
Backend = Literal["auto", "decord", "pyav"]
MODULES = dict(decord="decord", pyav="av")
PATIENCE = 9.0  # seconds for a backend's answer: with both, a hostile file is done with within 20
_slow: set[tuple[Path, str]] = set()  # no second wait for what hung once


@functools.cache
def installed() -> tuple[str, ...]:
    """The backends that are, the default one first."""
    return tuple(name for name in FRAMES if importlib.util.find_spec(MODULES[name]) is not None)


@dataclass(frozen=True)
class VideoFile:
    """A file, not opened: each call decodes what it needs and keeps nothing.

    With backend 'auto' one that fails, or does not answer within `timeout` seconds, is followed by the other.
    """

    path: Path
    backend: Backend = "auto"
    timeout: float = PATIENCE

    def frames(self, wanted: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        """(n, H, W, 3) uint8 and the numbers of those frames, ascending; wanted ones after the video's end are left
        out, whatever its header says of its length."""
        wanted = sorted(set(map(int, wanted)))
        if not wanted or wanted[0] < 0:
            raise ValueError(f"frames are numbered from 0, got {wanted}")
        answer, pixels = self._ask(what="frames", wanted=wanted)
        if not answer["numbers"]:
            raise DataError(f"{self.path} ends before frame {wanted[0]}: replace it or take it away")
        return np.frombuffer(pixels, np.uint8).reshape(answer["shape"]), answer["numbers"]

    def facts(self) -> dict[str, Any]:
        """frames (as many as the file says, seldom more than it has), height, width, frames_per_second, and what the
        backend knows besides."""
        answer, _ = self._ask(what="facts")
        return answer["facts"]

    def _ask(self, **request: Any) -> tuple[dict[str, Any], bytearray]:
        if self.path.exists():
            foreign.regular(self.path)
        else:
            raise DataError(f"{self.path} is missing: get the dataset again, or give another file")
        path = str(self.path.absolute())  # the decoder is where this process was when it started
        reasons = []
        for backend in self._backends():
            if (self.path, backend) in _slow:
                reasons.append(f"{backend}: gave no answer before")
                continue
            try:
                return decoder().ask(self.timeout, path=path, backend=backend, **request)
            except DecodingError as error:
                if "no answer" in str(error):
                    _slow.add((self.path, backend))
                reasons.append(f"{backend}: {error}")
        reason = "; ".join(reasons).removesuffix(".")
        more = ", or raise the dataset's timeout" if "no answer" in reason else ""
        raise DataError(f"{self.path} cannot be read as video ({reason}): replace it or take it away{more}")

    def _backends(self) -> Sequence[str]:
        found = installed() if self.backend == "auto" else [b for b in installed() if b == self.backend]
        if not found:
            asked = "decord or PyAV" if self.backend == "auto" else self.backend
            raise DataError(
                f"videos need {asked}: pip install decord, where it has wheels (Linux x86-64), or pip install av"
            )
        return found
