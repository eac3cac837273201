"""The .bin of N-MNIST and N-Caltech101: five bytes an event, big-endian: column, row, and 24 bits of which the first is
the polarity and the others the time. Row 240 is no pixel: it says that the camera's clock began anew, 2^13 us later.

Nothing in such a file says what it is, and others end in .bin too: it is held to what it should hold.
"""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats.binary import cut_off, mapped
from ndformer.modalities.events.formats.stream import EVENT, Events

SIDE = 34
BEGAN_ANEW, CLOCK = 240, 1 << 13
CALTECH = (180, 240)
BACK = 0.01  # of its events at most may come after one of a later time


def read_bin(path: Path) -> Events:
    data = mapped(path)
    count, left = divmod(len(data), 5)
    foreign.check_size(path, 3 * EVENT * count)
    events = parsed(np.asarray(data[: 5 * count]))
    if left:
        cut_off(path, left, count)
    return events


def parsed(content: np.ndarray) -> Events:
    """A ValueError of what is no recording of either."""
    x, y, high, middle, low = content.reshape(-1, 5).T
    t = (high & 0x7F).astype(np.int64) << 16 | middle.astype(np.int64) << 8 | low
    marks = y == BEGAN_ANEW
    t, height, width = t + np.cumsum(marks) * CLOCK, *sensor(x[~marks], y[~marks])
    if (np.diff(t) < 0).sum() > BACK * len(t):
        raise ValueError("its times go back and forth, so it is no .bin of N-MNIST or N-Caltech101")
    events = Events.of(x, y, t, high >> 7, height, width)
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


def looks_like(begin: bytes) -> bool:
    """The beginning of a file, as far as it goes."""
    try:
        return len(parsed(np.frombuffer(begin[: len(begin) // 5 * 5], np.uint8))) > 0
    except ValueError:
        return False


def write_bin(path: Path, events: Events) -> None:
    high = events.p.astype(np.int64) << 7 | events.t >> 16
    rows = np.stack([events.x, events.y, high, events.t >> 8 & 0xFF, events.t & 0xFF], 1)
    path.write_bytes(rows.astype(np.uint8).tobytes())
