"""Reader of the .bin files of N-MNIST and N-Caltech101: five bytes for each event, big-endian.

They are column, row, and 24 bits: the polarity, then the time. Row 240 marks a wrap of the camera's clock, 2^13 us
later. These files have no header, and other formats end in .bin too, so the values are checked.
"""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats.binary import cut_off, mapped
from ndformer.modalities.events.formats.stream import EVENT, Events

SIDE = 34
CLOCK_WRAP, CLOCK = 240, 1 << 13
CALTECH = (180, 240)
BACK = 0.01  # share of events that may come after one of a later time


def read_bin(path: Path) -> Events:
    data = mapped(path)
    count, left = divmod(len(data), 5)
    foreign.check_size(path, 3 * EVENT * count)
    events = parsed(np.asarray(data[: 5 * count]))
    if left:
        cut_off(path, left, count)
    return events


def parsed(content: np.ndarray) -> Events:
    """Decode events; raise a ValueError for content that is no such recording."""
    x, y, high, middle, low = content.reshape(-1, 5).T
    t = (high & 0x7F).astype(np.int64) << 16 | middle.astype(np.int64) << 8 | low
    marks = y == CLOCK_WRAP
    t, height, width = t + np.cumsum(marks) * CLOCK, *sensor(x[~marks], y[~marks])
    if (np.diff(t) < 0).sum() > BACK * len(t):
        raise ValueError("its times go back and forth, so it is no .bin of N-MNIST or N-Caltech101")
    events = Events.from_arrays(x, y, t, high >> 7, height, width)
    return events.take(~marks) if marks.any() else events


def sensor(x: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    for height, width in ((SIDE, SIDE), CALTECH):
        if x.max(initial=0) < width and y.max(initial=0) < height:
            return height, width
    wrong = int(((x >= CALTECH[1]) | (y >= CALTECH[0])).argmax())
    raise ValueError(
        f"as a .bin of N-MNIST or N-Caltech101, its event {wrong + 1} lies in row {y[wrong]}, column {x[wrong]}, which "
        f"their sensors of {SIDE} x {SIDE} and {CALTECH[0]} x {CALTECH[1]} pixels have not"
    )


def is_recording(begin: bytes) -> bool:
    """Return whether a file can be such a recording by its first bytes."""
    try:
        return len(parsed(np.frombuffer(begin[: len(begin) // 5 * 5], np.uint8))) > 0
    except ValueError:
        return False


def write_bin(path: Path, events: Events) -> None:
    high = events.p.astype(np.int64) << 7 | events.t >> 16
    rows = np.stack([events.x, events.y, high, events.t >> 8 & 0xFF, events.t & 0xFF], 1)
    path.write_bytes(rows.astype(np.uint8).tobytes())
