"""Reader of AEDAT 1.0 and 2.0, jAER's formats: lines beginning with #, then big-endian addresses and times.

Addresses have 16 bits in 1.0, whose first line may be missing, and 32 bits in 2.0. Times have 32 bits. The layout of an
address depends on the camera, which the line `# AEChip:` names, else `# HardwareInterface:`. (jAER also writes its
preferences for other cameras into headers.) jAER counts columns of these cameras from the right, and rows upwards.
"""

import re
import warnings
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats import cameras
from ndformer.modalities.events.formats.binary import comment_lines, cut_off, mapped, unwrapped
from ndformer.modalities.events.formats.stream import EVENT, Events

END = "#end of ascii header"
DVS = (128, 128)
DAVIS = ((180, 240), (260, 346), (480, 640))
NAMED = re.compile(r"(?<!c)davis?(128|240|346|640)|dvs(128|240)|tmpdiff128|sbret", re.IGNORECASE)  # not cdavis
DVS_BITS = 0x8000FFFF  # bits that a DVS sets, with the one that marks special events


def read_aedat2(path: Path) -> Events:
    return _read(path, np.dtype([("address", ">u4"), ("time", ">u4")]))


def read_aedat1(path: Path) -> Events:
    return _read(path, np.dtype([("address", ">u2"), ("time", ">u4")]))


def _read(path: Path, kind: np.dtype) -> Events:
    data = mapped(path)
    lines, offset = comment_lines(data, "#", END)
    count, left = divmod(len(data) - offset, kind.itemsize)
    if left:
        cut_off(path, left, count)
    foreign.check_size(path, 3 * EVENT * count)
    table = np.frombuffer(data[offset : offset + kind.itemsize * count], kind)
    address, t = table["address"].astype(np.int64), unwrapped(table["time"].astype(np.int64), 1 << 32)
    name = camera(lines)
    if name is None:
        return _davis_events(address, t, path, None) if (address & ~DVS_BITS).any() else _dvs_events(address, t, path)
    size = cameras.size_by_name(name)
    if size is None or not NAMED.search(name):
        raise ValueError(
            f"it is of the camera {foreign.printable(name)[:80]}, whose addresses are not known here: save its events "
            "as an .npz of x, y, t, p, height and width"
        )
    if re.search("dvs128|tmpdiff128", name, re.IGNORECASE):
        return _dvs_events(address, t, None)
    return _davis_events(address, t, path, size)


def camera(lines: list[str]) -> str | None:
    """Return the camera's name in the header, or None."""
    for word in ("AEChip", "HardwareInterface"):
        for line in lines:
            match = re.match(rf"#\s*{word}:\s*(\S.*)", line)
            if match and word == "AEChip":  # a class name of jAER, or text of another program
                return match[1] if " " in match[1] else match[1].rpartition(".")[2]
            chip = NAMED.search(match[1]) if match else None
            if chip:
                return chip[0]
    return None


def _dvs_events(address: np.ndarray, t: np.ndarray, unnamed: Path | None) -> Events:
    """Decode DVS addresses. Bit 15 marks synchronization, bit 31 other special events."""
    if unnamed is not None and len(t):
        warnings.warn(
            f"{unnamed} does not name its camera: a DVS128 is assumed, as its addresses have 16 bits", stacklevel=2
        )
    x, y, p = 127 - (address >> 1 & 0x7F), 127 - (address >> 8 & 0x7F), 1 - (address & 1)
    return Events.from_arrays(x, y, t, p, *DVS).take(address & 0x80008000 == 0)


def _davis_events(address: np.ndarray, t: np.ndarray, path: Path, size: cameras.Size | None) -> Events:
    """Decode DAVIS addresses. Bits 31 and 10 mark frames, synchronization and inertial measurements."""
    pixels = address & 0x80000400 == 0
    address, t = address[pixels], t[pixels]
    x, y, p = address >> 12 & 0x3FF, address >> 22 & 0x1FF, address >> 11 & 1
    height, width = size or cameras.assume_size(path, cameras.extent(x, y), DAVIS)
    return Events.from_arrays(width - 1 - x, height - 1 - y, t, p, height, width)
