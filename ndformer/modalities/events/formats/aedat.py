"""AEDAT 2.0 and 3.1, the formats of jAER and cAER. Damage is a ValueError, what is cut off a warning.

2.0:  lines beginning with #; then address and time of each event, big-endian uint32.
3.1:  lines beginning with #, the last is #!END-HEADER; then packets of a header of 28 bytes and, little-endian uint32,
      data and time of each event. Packets of type 1 have pixels' events, the others (frames, IMU ...) are passed over.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats.stream import EVENT, Events

HEADER = struct.Struct("<HHIIIIII")  # type, source, size, offset of time, time's overflows, capacity, number, valid
PIXELS = 1
DVS128 = (128, 128)
CAMERAS = dict(davis346=(260, 346), davis640=(480, 640), davis=(180, 240))  # height, width, by a name in the header


def mapped(path: Path) -> np.ndarray:
    """The bytes of a file, read when they are looked at."""
    return np.memmap(path, np.uint8, "r") if foreign.regular(path).stat().st_size else np.zeros(0, np.uint8)


def comment_lines(data: np.ndarray, mark: str, end: str | None = None) -> tuple[list[str], int]:
    """The lines at the beginning that start with `mark`, up to `end`, and the number of bytes they take."""
    lines, at = [], 0
    while at < len(data) and chr(data[at]) == mark:
        rest = data[at : at + 4096].tobytes()
        length = rest.find(b"\n") + 1
        if length == 0:
            raise ValueError(f"the line of its header at byte {at} does not end")
        lines.append(rest[:length].decode("latin-1").strip())
        at += length
        if lines[-1] == end:
            break
    return lines, at


def camera(lines: list[str]) -> tuple[int, int]:
    """(height, width) of the camera that a header names; of a DVS128 where it names none that is known."""
    text = "\n".join(lines).lower()
    return next((size for name, size in CAMERAS.items() if name in text), DVS128)


def cut_off(path: Path, left: int, count: int) -> None:
    warnings.warn(
        f"{path} is cut off: {left} bytes after its {count} events are no whole event and are left out", stacklevel=3
    )


def unwrapped(t: np.ndarray, period: int) -> np.ndarray:
    """Counters that began again at 0, going on instead."""
    return t + np.cumsum(np.diff(t, prepend=t[:1]) < -period // 2) * period


@dataclass(frozen=True)
class Packets:
    """Where the events of an AEDAT 3.1 file are, and when: to read a stretch of time without the rest."""

    path: Path
    data: np.ndarray  # (bytes,)
    place: np.ndarray  # (packets,) the first event's byte
    count: np.ndarray  # (packets,)
    overflow: np.ndarray  # (packets,) what to add to times
    first: np.ndarray  # (packets,) time of the first event
    size: tuple[int, int]  # height and width of the sensor

    @classmethod
    def of(cls, path: Path) -> Packets:
        data = mapped(path)
        lines, at = comment_lines(data, "#", "#!END-HEADER")
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
        return cls(path, data, place, count, overflow, first, camera(lines))

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
        events = Events.of(x, y, t, p, *self.size)
        return events if valid.all() else events.take(valid)

    def between(self, start: int, end: int) -> Events:
        """Those with start <= t < end, in time order."""
        if not (self.first[1:] >= self.first[:-1]).all():
            return self.read().ordered().between(start, end)
        low = max(0, int(np.searchsorted(self.first, start)) - 1)
        return self.read(slice(low, int(np.searchsorted(self.first, end)))).ordered().between(start, end)


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


def read_aedat3(path: Path) -> Events:
    return Packets.of(path).read()


def read_aedat2(path: Path) -> Events:
    """Of a DVS128, or of the DAVIS that the header speaks of. Rows count downwards, as in images."""
    data = mapped(path)
    lines, at = comment_lines(data, "#")
    if not lines or not lines[0].startswith("#!AER-DAT2"):
        raise ValueError("it does not begin with #!AER-DAT2.0")
    count, left = divmod(len(data) - at, 8)
    if left:
        cut_off(path, left, count)
    foreign.check_size(path, 3 * EVENT * count)
    address, time = np.frombuffer(data[at : at + 8 * count], ">u4").reshape(-1, 2).astype(np.int64).T
    t = unwrapped(time, 1 << 32)
    height, width = camera(lines)
    if (height, width) != DVS128:
        pixels = (address >> 31 == 0) & (address >> 10 & 1 == 0)
        x, y, p = address >> 12 & 0x3FF, height - 1 - (address >> 22 & 0x1FF), address >> 11 & 1
        return Events.of(x, y, t, p, height, width).take(pixels)
    x, y, p = 127 - (address >> 1 & 0x7F), 127 - (address >> 8 & 0x7F), 1 - (address & 1)
    return Events.of(x, y, t, p, height, width).take(address >> 15 & 1 == 0)  # bit 15: synchronisation
