"""Prophesee's formats: .dat (GEN1), and .raw in EVT2 and EVT3. Damage is a ValueError, what is cut off a warning.

All begin with lines that start with %. Then:

.dat   an event's type and size, a byte each (only where there were lines); records of uint32 time and uint32 data
EVT2   uint32 words: the time's upper bits, or a pixel with the 6 lower ones
EVT3   uint16 words, each changing a part of the decoder's state: time, row, or column and polarity of what follows

All little-endian. EVT words are decoded in pieces: what the state was at a word is the last word that set it.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats.aedat import comment_lines, cut_off, mapped, unwrapped
from ndformer.modalities.events.formats.stream import EVENT, Events, concatenate

GEN1 = (240, 304)  # height, width


class Dat:
    """A .dat file: events by their numbers or times, without reading the others."""

    def __init__(self, path: Path) -> None:
        self.path, data = path, mapped(path)
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
        records = self.records[chosen]
        foreign.check_size(self.path, EVENT * len(records))
        time, word = np.asarray(records).T
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
    kind, decoder = (np.dtype("<u4"), Evt2()) if version == "2" else (np.dtype("<u2"), Evt3())
    count, left = divmod(len(data) - at, kind.itemsize)
    foreign.check_size(path, 4 * kind.itemsize * count)  # the least that words make work for
    words = np.frombuffer(data[at : at + kind.itemsize * count], kind)
    parts, made = [], 0
    for begin in range(0, max(1, count), PIECE):
        x, y, t, p = decoder.decode(words[begin : begin + PIECE])
        made += len(t)
        foreign.check_size(path, EVENT * made)  # of two bytes come twelve events
        if x.max(initial=0) >= 1 << 16:
            raise ValueError(f"its x reaches to {x.max()}")
        parts.append(Events.of(x, y, t, p, int(y.max(initial=0)) + 1, int(x.max(initial=0)) + 1))
    if left:
        cut_off(path, left, made)
    height, width = sensor(lines) or (max(part.height for part in parts), max(part.width for part in parts))
    return dataclasses.replace(concatenate(parts), height=height, width=width)


PIECE = 2**16  # words that are decoded at once
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def last_set(sets: np.ndarray) -> np.ndarray:
    """For each word the number of the last one, itself included, where `sets` is true; -1 where there is none."""
    return np.maximum.accumulate(np.where(sets, np.arange(len(sets)), -1))


class Evt2:
    def __init__(self) -> None:
        self.clock: int | None = None  # what the words before these set

    def decode(self, words: np.ndarray) -> Columns:
        kind = words >> 28
        given = (words[kind == 8] & 0xFFFFFFF).astype(np.int64)
        times, self.clock = counted_on(self.clock, given, 1 << 28)
        set_by = np.cumsum(kind == 8) - (len(times) == len(given))  # a place in `times`, -1 where there is none
        pixels = (kind < 2) & (set_by >= 0)
        word = words[pixels]
        t = times[set_by[pixels]] << 6 | word >> 22 & 0x3F
        return word >> 11 & 0x7FF, word & 0x7FF, t, kind[pixels]


def counted_on(before: int | None, given: np.ndarray, period: int) -> tuple[np.ndarray, int | None]:
    """Counters that began again at 0 going on instead, after the last one before them, if any, which comes first."""
    if before is None:
        times = unwrapped(given, period)
    else:
        times = unwrapped(np.concatenate([[before % period], given]), period) + before - before % period
    return times, int(times[-1]) if len(times) else None


ROW, COLUMN, BASE, VECTOR_12, VECTOR_8, LOW, HIGH = 0, 2, 3, 4, 5, 6, 8


class Evt3:
    """What the words before a piece set comes first in it, as words."""

    def __init__(self) -> None:
        self.clock: int | None = None
        self.state: list[tuple[int, int]] = []  # words that set it: kind, value
        self.moved = 0  # columns that vectors moved on since the base

    def decode(self, words: np.ndarray) -> Columns:
        before = np.array(self.state, np.int64).reshape(-1, 2)
        kind = np.concatenate([before[:, 0], words >> 12])
        value = np.concatenate([before[:, 1], words & 0xFFF])
        high, low, row, base = (last_set(kind == of) for of in (HIGH, LOW, ROW, BASE))
        clock = np.zeros(len(kind), np.int64)
        given = value[kind == HIGH]
        clock[kind == HIGH], self.clock = counted_on(self.clock, given[self.clock is not None :], 1 << 12)
        # the lower bits begin anew with the upper ones
        t = (clock[high] << 12) + np.where(low > high, value[low], 0)
        known = (high >= 0) & (row >= 0)
        # vectors: a bit for each of the next 12 or 8 columns from the base, which then moves on by as many
        wide = np.where(kind == VECTOR_12, 12, np.where(kind == VECTOR_8, 8, 0))
        moved = np.cumsum(wide) - wide
        origin = np.where(np.arange(len(kind)) < len(before), -self.moved, moved)
        drawn = np.flatnonzero(known & ((kind == COLUMN) | ((wide > 0) & (base >= 0))))  # words that have events
        bits = (value[drawn, None] >> np.arange(12) & 1).astype(bool) & (np.arange(12) < wide[drawn, None])
        bits[:, 0] |= kind[drawn] == COLUMN
        word, bit = np.nonzero(bits)
        word = drawn[word]
        single = kind[word] == COLUMN
        source = np.where(single, word, base[word])  # the word that has column and polarity
        x = (value[source] & 0x7FF) + np.where(single, 0, moved[word] - origin[source] + bit)
        if len(kind):
            last = [high[-1], low[-1] if low[-1] > high[-1] else -1, row[-1], base[-1]]
            self.state = [(int(kind[at]), int(value[at])) for at in last if at >= 0]
            self.moved = int(moved[-1] + wide[-1] - origin[base[-1]]) if base[-1] >= 0 else 0
        return x, value[row[word]] & 0x7FF, t[word], value[source] >> 11 & 1
