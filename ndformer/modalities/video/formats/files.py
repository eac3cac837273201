"""Exact frames from a video file. Every error of a file is reported in one sentence."""

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
PATIENCE = 9.0  # default timeout in seconds of one backend: with both, a hostile file takes less than 20
_slow: set[tuple[Path, str]] = set()  # files and backends that hung once are not tried again


@functools.cache
def installed() -> tuple[str, ...]:
    """Return the installed backends, the default first."""
    return tuple(name for name in FRAMES if importlib.util.find_spec(MODULES[name]) is not None)


@dataclass(frozen=True)
class VideoFile:
    """A video file that is opened for each call; nothing is kept in memory.

    With backend 'auto', a backend that fails or does not answer within `timeout` seconds is followed by the other.
    """

    path: Path
    backend: Backend = "auto"
    timeout: float = PATIENCE

    def frames(self, indices: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        """Return frames (n, H, W, 3) uint8 and their indices, ascending, without those after the actual end."""
        indices = sorted(set(map(int, indices)))
        if not indices or indices[0] < 0:
            raise ValueError(f"frames are numbered from 0, got {indices}")
        answer, pixels = self._request(kind="frames", indices=indices)
        if not answer["numbers"]:
            raise DataError(f"{self.path} ends before frame {indices[0]}: replace it or remove it")
        return np.frombuffer(pixels, np.uint8).reshape(answer["shape"]), answer["numbers"]

    def facts(self) -> dict[str, Any]:
        """Return frames (the claimed number, rarely wrong), height, width, frames_per_second, and more by backend."""
        answer, _ = self._request(kind="facts")
        return answer["facts"]

    def _request(self, **request: Any) -> tuple[dict[str, Any], bytearray]:
        try:
            foreign.status(self.path)
        except (OSError, ValueError):
            raise DataError(f"{self.path} is missing: get the dataset again, or give another file") from None
        local = foreign.local(foreign.regular(self.path))
        path = str(local.absolute())  # the working directory of the decoder may be another
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
        raise DataError(f"{self.path} cannot be read as video ({reason}): replace it or remove it{more}")

    def _backends(self) -> Sequence[str]:
        backends = installed() if self.backend == "auto" else [b for b in installed() if b == self.backend]
        if not backends:
            library = "decord or PyAV" if self.backend == "auto" else self.backend
            raise DataError(
                f"videos need {library}: pip install decord, where it has wheels (Linux x86-64), or pip install av"
            )
        return backends
