"""N-MNIST's .bin: five bytes an event, big-endian: column, row, and 24 bits of which the first is the polarity and the
others the time. Row 240 is no pixel: it says that the camera's clock began anew, 2^13 us later."""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats.aedat import cut_off, mapped
from ndformer.modalities.events.formats.stream import EVENT, Events

SIDE = 34
BEGAN_ANEW, CLOCK = 240, 1 << 13


def read_bin(path: Path) -> Events:
    data = mapped(path)
    count, left = divmod(len(data), 5)
    foreign.check_size(path, 3 * EVENT * count)
    if left:
        cut_off(path, left, count)
    x, y, high, middle, low = np.asarray(data[: 5 * count]).reshape(-1, 5).T
    t = (high & 0x7F).astype(np.int64) << 16 | middle.astype(np.int64) << 8 | low
    marks = y == BEGAN_ANEW
    events = Events.of(x, y, t + np.cumsum(marks) * CLOCK, high >> 7, SIDE, SIDE)
    return events.take(~marks) if marks.any() else events


def write_bin(path: Path, events: Events) -> None:
    high = events.p.astype(np.int64) << 7 | events.t >> 16
    rows = np.stack([events.x, events.y, high, events.t >> 8 & 0xFF, events.t & 0xFF], 1)
    path.write_bytes(rows.astype(np.uint8).tobytes())
