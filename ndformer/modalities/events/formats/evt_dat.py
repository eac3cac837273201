"""Reader of Prophesee's formats: .dat (GEN1), and .raw in EVT2, EVT2.1, EVT3 and EVT4.

Damage raises a ValueError, truncation a warning.

All begin with lines that start with %. Then follow:

.dat    a byte each for the type and size of events (only after such lines); records of uint32 time and uint32 data
EVT2    uint32 words: the upper bits of the time, or a pixel with the 6 lower bits
EVT2.1  the same, each with a mask of 32 columns, so 8 bytes
EVT3    uint16 words that each change a part of the decoder's state: time, row, or column and polarity
EVT4    like EVT2, with other kinds of words, some of them followed by a mask of 32 columns

All numbers are little-endian. Words are decoded in pieces (evt_words.py).
"""

import dataclasses
import re
from pathlib import Path
from typing import Protocol

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats import cameras
from ndformer.modalities.events.formats.binary import comment_lines, cut_off, mapped, unwrapped
from ndformer.modalities.events.formats.evt_words import Columns, Evt2, Evt3, Evt4, Evt21
from ndformer.modalities.events.formats.stream import EVENT, Events, concatenate

GEN1 = (240, 304)  # height, width
PIECE = 2**16  # words decoded at once
KINDS = {"2": "EVT2", "21": "EVT2.1", "3": "EVT3", "4": "EVT4"}
WORDS = {"2": 4, "21": 8, "3": 2, "4": 4}  # bytes
GENERATIONS = {  # Prophesee's sensors, by patterns of their names in headers, in lower case
    r"gen3\d|generation 3|gen_3": (480, 640),
    r"gen4\d|generation 4|imx636|imx646": (720, 1280),
    r"genx320|generation 320": (320, 320),
}


class Decodes(Protocol):
    def decode(self, words: np.ndarray, /) -> Columns: ...


class Dat:
    """A .dat file, from which events are read by index or time without reading the others."""

    def __init__(self, path: Path) -> None:
        self.path, data = path, mapped(path)
        lines, start = comment_lines(data, "%")
        if lines:
            if len(data) < start + 2 or data[start + 1] != 8:
                raise ValueError("after its header come no type and size of events, or the size is not 8")
            start += 2
        self.size = cameras.parse_size("\n".join(lines))
        count, left = divmod(len(data) - start, 8)
        if left:
            cut_off(path, left, count)
        self.records = data[start : start + 8 * count].view("<u4").reshape(-1, 2) if count else np.zeros((0, 2), "<u4")

    def __len__(self) -> int:
        return len(self.records)

    def until(self, time: int) -> int:
        """Return the number of events up to and including a time. Times are ascending, apart from rare glitches."""
        low, high = 0, len(self)
        while low < high:  # reads a few pages only; searchsorted would copy all times
            middle = (low + high) // 2
            low, high = (middle + 1, high) if int(self.records[middle, 0]) <= time else (low, middle)
        return low

    def read(self, chosen: slice = slice(None)) -> Events:
        records = self.records[chosen]
        foreign.check_size(self.path, EVENT * len(records))
        time, word = np.asarray(records).T
        time = unwrapped(time.astype(np.int64), 1 << 32)  # of microseconds: 71 minutes
        x, y = word & 0x3FFF, word >> 14 & 0x3FFF
        return Events.from_arrays(x, y, time, word >> 28 & 1, *(self.size or self._assume_size(cameras.extent(x, y))))

    def _assume_size(self, reached: cameras.Size) -> cameras.Size:
        """GEN1's recordings do not name their sensor."""
        return cameras.smallest(reached, (GEN1,)) or cameras.assume_size(self.path, reached, cameras.PROPHESEE)


def read_dat(path: Path) -> Events:
    return Dat(path).read()


def write_dat(path: Path, events: Events) -> None:
    """Write events as GEN1's recordings have them."""
    word = events.x.astype(np.int64) | events.y.astype(np.int64) << 14 | events.p.astype(np.int64) << 28
    head = f"% Data file containing CD events.\n% Version 2\n% Height {events.height}\n% Width {events.width}\n"
    body = np.stack([events.t, word], 1).astype("<u4").tobytes()
    path.write_bytes(head.encode() + bytes([0, 8]) + body)


def geometry(text: str) -> cameras.Size | None:
    """Return the sensor size in a header, from its numbers or from the sensor's generation."""
    return cameras.parse_size(text) or next((size for name, size in GENERATIONS.items() if re.search(name, text)), None)


def evt_version(text: str) -> str | None:
    """Return the EVT version in a header: 2, 21, 3 or 4, another one as it is, or None."""
    match = re.search(r"(?:evt |format evt)(\d)(?:\.?(\d))?", text.lower())
    return match[1] + (match[2] or "").strip("0") if match else None


def read_raw(path: Path) -> Events:
    data = mapped(path)
    lines, start = comment_lines(data, "%", "% end")
    text = "\n".join(lines).lower()
    version = evt_version(text)
    if version not in WORDS:
        raise ValueError("its header names none of EVT2, EVT2.1, EVT3 and EVT4, which are known here")
    size, wide = geometry(text), WORDS[version]
    count, left = divmod(len(data) - start, wide)
    foreign.check_size(path, 4 * wide * count)  # the minimum for decoding
    words = np.frombuffer(data[start : start + wide * count], "<u2" if version == "3" else "<u4")
    decoder = dict[str, Decodes]({"2": Evt2(), "21": Evt21(legacy(words, text)), "3": Evt3(), "4": Evt4()})[version]
    parts, total = [], 0
    for begin in range(0, max(1, len(words)), PIECE):
        x, y, t, p = decoder.decode(words[begin : begin + PIECE])
        total += len(t)
        foreign.check_size(path, EVENT * total)  # a word can have up to 32 events
        if x.max(initial=0) >= 1 << 16:
            raise ValueError(f"its x reaches to {x.max()}")
        parts.append(Events.from_arrays(x, y, t, p, 0, 0))
    if left:
        cut_off(path, left, total)
    events = concatenate(parts)
    size = size or cameras.assume_size(path, cameras.extent(events.x, events.y), cameras.PROPHESEE)
    return dataclasses.replace(events, height=size[0], width=size[1])


def legacy(words: np.ndarray, text: str) -> bool:
    """Return whether EVT2.1 words come before their masks, by the header, else by the position of time words."""
    endianness = re.search(r"endianness=(\w+)", text)
    if endianness:
        return endianness[1] == "legacy"
    first, second = ((words[half::2] >> 28 == 8).sum() for half in (0, 1))
    return bool(first > second)
