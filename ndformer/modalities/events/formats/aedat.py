"""Reader of AEDAT 3.1, cAER's format. Damage raises a ValueError, truncation a warning.

A file has lines beginning with #, the last one #!END-HEADER, then packets: a header of 28 bytes, then data and time of
each event as little-endian uint32. Packets of type 1 have pixel events, others (frames, IMU ...) are skipped. The line
`#Source 1: DAVIS240C` names the camera. AEDAT 1 and 2 are in aedat2.py, AEDAT 4 is in aedat4.py.
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

HEADER = struct.Struct("<HHIIIIII")  # type, source, size, time offset, time overflows, capacity, number, valid
PIXELS = 1
SOURCE = re.compile(r"#\s*Source \d+:\s*(\S+)", re.IGNORECASE)  # not #-Source, which names a previous source


@dataclass(frozen=True)
class Packets:
    """The packets of an AEDAT 3.1 file and their times, from which a time span is read without the others."""

    path: Path
    data: np.ndarray  # (bytes,)
    place: np.ndarray  # (packets,) byte offset of the first event
    count: np.ndarray  # (packets,)
    overflow: np.ndarray  # (packets,) added to times
    first: np.ndarray  # (packets,) time of the first event
    size: cameras.Size | None  # of the sensor, if the header names one that is supported

    @classmethod
    def from_file(cls, path: Path) -> Packets:
        data = mapped(path)
        lines, byte = comment_lines(data, "#", "#!end-header")
        if not lines or not lines[0].startswith("#!AER-DAT3"):
            raise ValueError("it does not begin with #!AER-DAT3.1")
        packets: list[tuple[int, int, int]] = []
        while byte + HEADER.size <= len(data):
            kind, _, size, offset, overflow, capacity, number, _ = HEADER.unpack(
                data[byte : byte + HEADER.size].tobytes()
            )
            pixels = size == 8 and offset == 4 and overflow < 1 << 31  # times have at most 62 bits
            if size == 0 or number > capacity or (kind == PIXELS and not pixels):
                raise ValueError(f"its packet at byte {byte} is damaged: {number} of {capacity} events of {size} bytes")
            byte += HEADER.size
            if kind == PIXELS:
                complete = min(number, (len(data) - byte) // 8)
                packets.append((byte, complete, overflow << 31))
                if complete < number:
                    warnings.warn(
                        f"{path} is cut off: {number - complete} events of its last packet are missing", stacklevel=2
                    )
            byte += capacity * size
        if len(data) - byte > 0:
            cut_off(path, len(data) - byte, sum(count for _, count, _ in packets))
        place, count, overflow = np.array([packet for packet in packets if packet[1]], np.int64).reshape(-1, 3).T
        first = overflow + _uint32(data, place + 4)
        return cls(path, data, place, count, overflow, first, sensor(lines))

    def read(self, chosen: slice = slice(None)) -> Events:
        """Read the events of some packets, without those marked as invalid."""
        place, count = self.place[chosen], self.count[chosen]
        foreign.check_size(self.path, 2 * EVENT * int(count.sum()))
        parts = [self.data[start : start + 8 * n] for start, n in zip(place.tolist(), count.tolist())]
        raw = np.concatenate([np.zeros(0, np.uint8), *parts]).view("<u4").reshape(-1, 2)
        word, time = raw.T
        t = time.astype(np.int64) + np.repeat(self.overflow[chosen], count)
        valid = (word & 1).astype(bool)
        x, y, p = word >> 17, word >> 2 & 0x7FFF, word >> 1 & 1
        if not valid.all():
            x, y, t, p = (column[valid] for column in (x, y, t, p))
        size = self.size or cameras.assume_size(self.path, cameras.extent(x, y), cameras.SENSORS)
        return Events.from_arrays(x, y, t, p, *size)

    def time_window(self, start: int, end: int) -> Events:
        """Read the events with start <= t < end, in time order."""
        if not (self.first[1:] >= self.first[:-1]).all():
            return self.read().ordered().time_window(start, end)
        low = max(0, int(np.searchsorted(self.first, start)) - 1)
        return self.read(slice(low, int(np.searchsorted(self.first, end)))).ordered().time_window(start, end)


def sensor(lines: list[str]) -> cameras.Size | None:
    names = [match[1] for match in map(SOURCE.match, lines) if match]
    return next((size for size in map(cameras.size_by_name, names) if size), None)


def write_aedat3(path: Path, events: Events, packet: int = 4096) -> None:
    """Write events as DvsGesture's recordings have them."""
    t = events.t & 0x7FFFFFFF
    word = events.x.astype(np.int64) << 17 | events.y.astype(np.int64) << 2 | events.p.astype(np.int64) << 1 | 1
    body = np.stack([word, t], 1).astype("<u4")
    edges = np.flatnonzero(np.diff(events.t >> 31)) + 1  # a packet has one overflow value
    cuts = np.unique([*range(0, len(events), packet), *edges.tolist()]).tolist()
    with path.open("wb") as file:
        file.write(b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DVS128\r\n#!END-HEADER\r\n")
        for begin, end in zip(cuts, [*cuts[1:], len(events)]):
            count = end - begin
            file.write(HEADER.pack(PIXELS, 1, 8, 4, int(events.t[begin] >> 31), count, count, count))
            file.write(body[begin:end].tobytes())


def _uint32(data: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Read little-endian uint32 at byte offsets (n,)."""
    return (data[place[:, None] + np.arange(4)].astype(np.int64) << np.array([0, 8, 16, 24])).sum(1)
