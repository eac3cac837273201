"""Prophesee's formats: .dat (GEN1), and .raw in EVT2 and EVT3. Damage is a ValueError, what is cut off a warning.

All begin with lines that start with %. Then:

.dat   an event's type and size, a byte each (only where there were lines); records of uint32 time and uint32 data
EVT2   uint32 words: the time's upper bits, or a pixel with the 6 lower ones
EVT3   uint16 words, each changing a part of the decoder's state: time, row, or column and polarity of what follows

All little-endian. EVT words are decoded all at once: what the state was at a word is the last word that set it.
"""

import re
from pathlib import Path

import numpy as np

from ndformer.modalities.events.formats.aedat import comment_lines, cut_off, mapped, unwrapped
from ndformer.modalities.events.formats.stream import Events

GEN1 = (240, 304)  # height, width


class Dat:
    """A .dat file: events by their numbers or times, without reading the others."""

    def __init__(self, path: Path) -> None:
        data = mapped(path)
        lines, at = comment_lines(data, "%")
        if lines:
            if len(data) < at + 2 or data[at + 1] != 8:
                raise ValueError("after its header come no type and size of events, or the size is not 8")
            at += 2
        self.size = sensor(lines) or GEN1
        count, left = divmod(len(data) - at, 8)
        if left:
            cut_off(path, left, count)
        self.records = data[at : at + 8 * count].view("<u4").reshape(-1, 2) if count else np.zeros((0, 2), "<u4")

    def __len__(self) -> int:
        return len(self.records)

    def until(self, time: int) -> int:
        """How many events there are up to and at a time; times are ascending, but for rare glitches."""
        low, high = 0, len(self)
        while low < high:  # a handful of pages are read; searchsorted would copy all times
            middle = (low + high) // 2
            low, high = (middle + 1, high) if int(self.records[middle, 0]) <= time else (low, middle)
        return low

    def read(self, chosen: slice = slice(None)) -> Events:
        time, word = np.asarray(self.records[chosen]).T
        return Events.of(word & 0x3FFF, word >> 14 & 0x3FFF, time, word >> 28 & 1, *self.size)


def read_dat(path: Path) -> Events:
    return Dat(path).read()


def write_dat(path: Path, events: Events) -> None:
    """As GEN1's recordings are."""
    word = events.x.astype(np.int64) | events.y.astype(np.int64) << 14 | events.p.astype(np.int64) << 28
    head = f"% Data file containing CD events.\n% Version 2\n% Height {events.height}\n% Width {events.width}\n"
    body = np.stack([events.t, word], 1).astype("<u4").tobytes()
    path.write_bytes(head.encode() + bytes([0, 8]) + body)


def sensor(lines: list[str]) -> tuple[int, int] | None:
    """(height, width), where a header has them: '% Height 240', 'height=240' or '% geometry 1280x720'."""
    text = "\n".join(lines).lower()
    both = re.search(r"geometry\D{0,3}(\d{1,5})x(\d{1,5})", text)
    width, height = re.search(r"width\W(\d{1,5})", text), re.search(r"height\W(\d{1,5})", text)
    found = None
    if both:
        found = int(both[2]), int(both[1])
    elif width and height:
        found = int(height[1]), int(width[1])
    if found is not None and not (0 < found[0] < 1 << 16 and 0 < found[1] < 1 << 16):
        raise ValueError(f"its header gives a sensor of {found[0]} x {found[1]} pixels")
    return found


def evt_version(lines: list[str]) -> str | None:
    found = re.search(r"(?:evt |format evt)([23])(?!\.?[1-9])", "\n".join(lines).lower())  # 2.1 is another format
    return found[1] if found else None


def read_raw(path: Path) -> Events:
    data = mapped(path)
    lines, at = comment_lines(data, "%", "% end")
    version = evt_version(lines)
    if version is None:
        raise ValueError("its header names neither EVT2 nor EVT3, the two that are known here")
    kind, decode = (np.dtype("<u4"), decode_evt2) if version == "2" else (np.dtype("<u2"), decode_evt3)
    count, left = divmod(len(data) - at, kind.itemsize)
    x, y, t, p = decode(np.frombuffer(data[at : at + kind.itemsize * count], kind))
    if left:
        cut_off(path, left, len(t))
    height, width = sensor(lines) or (int(y.max(initial=0)) + 1, int(x.max(initial=0)) + 1)
    return Events.of(x, y, t, p, height, width)


Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def last_set(sets: np.ndarray) -> np.ndarray:
    """For each word the number of the last one, itself included, where `sets` is true; -1 where there is none."""
    return np.maximum.accumulate(np.where(sets, np.arange(len(sets)), -1))


def decode_evt2(words: np.ndarray) -> Columns:
    kind = words >> 28
    clock = last_set(kind == 8)
    pixels = (kind < 2) & (clock >= 0)
    high = np.where(kind == 8, words & 0xFFFFFFF, 0).astype(np.int64)
    high[kind == 8] = unwrapped(high[kind == 8], 1 << 28)
    word = words[pixels]
    return word >> 11 & 0x7FF, word & 0x7FF, high[clock[pixels]] << 6 | word >> 22 & 0x3F, kind[pixels]


ROW, COLUMN, BASE, VECTOR_12, VECTOR_8, LOW, HIGH = 0, 2, 3, 4, 5, 6, 8


def decode_evt3(words: np.ndarray) -> Columns:
    kind, value = words >> 12, (words & 0xFFF).astype(np.int64)
    high, low, row, base = (last_set(kind == of) for of in (HIGH, LOW, ROW, BASE))
    clock = np.zeros(len(words), np.int64)
    clock[kind == HIGH] = unwrapped(value[kind == HIGH], 1 << 12)
    t = (clock[high] << 12) + np.where(low > high, value[low], 0)  # the lower bits begin anew with the upper ones
    known = (high >= 0) & (row >= 0)
    # vectors: a bit for each of the next 12 or 8 columns from the base, which then moves on by as many
    wide = np.where(kind == VECTOR_12, 12, np.where(kind == VECTOR_8, 8, 0))
    moved = np.cumsum(wide) - wide
    bits = (value[:, None] >> np.arange(12) & 1).astype(bool) & (np.arange(12) < wide[:, None])
    bits[:, 0] |= kind == COLUMN
    bits &= (known & ((kind == COLUMN) | (base >= 0)))[:, None]
    word, bit = np.nonzero(bits)
    single = kind[word] == COLUMN
    source = np.where(single, word, base[word])  # the word that has column and polarity
    x = (value[source] & 0x7FF) + np.where(single, 0, moved[word] - moved[source] + bit)
    return x, value[row[word]] & 0x7FF, t[word], value[source] >> 11 & 1
