"""AEDAT 3.1, cAER's format. Damage is a ValueError, what is cut off a warning.

Lines beginning with #, the last is #!END-HEADER; then packets of a header of 28 bytes and, little-endian uint32, data
and time of each event. Packets of type 1 have pixels' events, the others (frames, IMU ...) are passed over. The line
`#Source 1: DAVIS240C` names the camera. Its predecessors are in aedat2.py, its successor in aedat4.py.
"""

from __future__ import annotations

import re
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats import cameras
from ndformer.modalities.events.formats.binary import comment_lines, cut_off, mapped
from ndformer.modalities.events.formats.stream import EVENT, Events

HEADER = struct.Struct("<HHIIIIII")  # type, source, size, offset of time, time's overflows, capacity, number, valid
PIXELS = 1
SOURCE = re.compile(r"#\s*Source \d+:\s*(\S+)", re.IGNORECASE)  # not #-Source, which is of the one before


@dataclass(frozen=True)
class Packets:
    """Where the events of an AEDAT 3.1 file are, and when: to read a stretch of time without the rest."""

    path: Path
    data: np.ndarray  # (bytes,)
    place: np.ndarray  # (packets,) the first event's byte
    count: np.ndarray  # (packets,)
    overflow: np.ndarray  # (packets,) what to add to times
    first: np.ndarray  # (packets,) time of the first event
    size: cameras.Size | None  # of the sensor, where the header names a known one

    @classmethod
    def of(cls, path: Path) -> Packets:
        data = mapped(path)
        lines, at = comment_lines(data, "#", "#!end-header")
        if not lines or not lines[0].startswith("#!AER-DAT3"):
            raise ValueError("it does not begin with #!AER-DAT3.1")
        found: list[tuple[int, int, int]] = []
        while at + HEADER.size <= len(data):
            kind, _, size, offset, overflow, capacity, number, _ = HEADER.unpack(data[at : at + HEADER.size].tobytes())
            pixels = size == 8 and offset == 4 and overflow < 1 << 31  # times of more than 62 bits are none
            if size == 0 or number > capacity or (kind == PIXELS and not pixels):
                raise ValueError(f"its packet at byte {at} is damaged: {number} of {capacity} events of {size} bytes")
            at += HEADER.size
            if kind == PIXELS:
                whole = min(number, (len(data) - at) // 8)
                found.append((at, whole, overflow << 31))
                if whole < number:
                    warnings.warn(
                        f"{path} is cut off: {number - whole} events of its last packet are missing", stacklevel=2
                    )
            at += capacity * size
        if len(data) - at > 0:
            cut_off(path, len(data) - at, sum(count for _, count, _ in found))
        place, count, overflow = np.array([one for one in found if one[1]], np.int64).reshape(-1, 3).T
        first = overflow + _uint32(data, place + 4)
        return cls(path, data, place, count, overflow, first, sensor(lines))

    def read(self, chosen: slice = slice(None)) -> Events:
        """The events of some packets; those marked as not valid are left out."""
        place, count = self.place[chosen], self.count[chosen]
        foreign.check_size(self.path, 2 * EVENT * int(count.sum()))
        parts = [self.data[at : at + 8 * n] for at, n in zip(place.tolist(), count.tolist())]
        raw = np.concatenate([np.zeros(0, np.uint8), *parts]).view("<u4").reshape(-1, 2)
        word, time = raw.T
        t = time.astype(np.int64) + np.repeat(self.overflow[chosen], count)
        valid = (word & 1).astype(bool)
        x, y, p = word >> 17, word >> 2 & 0x7FFF, word >> 1 & 1
        if not valid.all():
            x, y, t, p = (column[valid] for column in (x, y, t, p))
        size = self.size or cameras.assumed(self.path, cameras.reached(x, y), cameras.KNOWN)
        return Events.of(x, y, t, p, *size)

    def between(self, start: int, end: int) -> Events:
        """Those with start <= t < end, in time order."""
        if not (self.first[1:] >= self.first[:-1]).all():
            return self.read().ordered().between(start, end)
        low = max(0, int(np.searchsorted(self.first, start)) - 1)
        return self.read(slice(low, int(np.searchsorted(self.first, end)))).ordered().between(start, end)


def sensor(lines: list[str]) -> cameras.Size | None:
    names = [found[1] for found in map(SOURCE.match, lines) if found]
    return next((size for size in map(cameras.named, names) if size), None)


def write_aedat3(path: Path, events: Events, packet: int = 4096) -> None:
    """As DvsGesture's recordings are."""
    t = events.t & 0x7FFFFFFF
    word = events.x.astype(np.int64) << 17 | events.y.astype(np.int64) << 2 | events.p.astype(np.int64) << 1 | 1
    body = np.stack([word, t], 1).astype("<u4")
    edges = np.flatnonzero(np.diff(events.t >> 31)) + 1  # times of a packet share their overflows
    cuts = np.unique([*range(0, len(events), packet), *edges.tolist()]).tolist()
    with path.open("wb") as file:
        file.write(b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DVS128\r\n#!END-HEADER\r\n")
        for begin, end in zip(cuts, [*cuts[1:], len(events)]):
            count = end - begin
            file.write(HEADER.pack(PIXELS, 1, 8, 4, int(events.t[begin] >> 31), count, count, count))
            file.write(body[begin:end].tobytes())


def _uint32(data: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Little-endian numbers at bytes (n,)."""
    return (data[place[:, None] + np.arange(4)].astype(np.int64) << np.array([0, 8, 16, 24])).sum(1)
