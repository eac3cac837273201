"""AEDAT 1.0 and 2.0, jAER's formats: lines beginning with #, then address and time of each event, big-endian.

1.0 has addresses of 16 bits, and its first line may be missing; 2.0 of 32. Times have 32 bits. What an address means is
the camera's: that of the line `# AEChip:`, else of `# HardwareInterface:`. (jAER writes its preferences into headers,
those of other cameras too.) jAER counts columns of these cameras from the right, and rows upwards.
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
NAMED = re.compile(r"(?<!c)davis?(128|240|346|640)|dvs(128|240)|tmpdiff128|sbret", re.IGNORECASE)  # cdavis: another
OF_A_DVS = 0x8000FFFF  # bits of its addresses, and the one that marks what is no event


def read_aedat2(path: Path) -> Events:
    return _read(path, np.dtype([("address", ">u4"), ("time", ">u4")]))


def read_aedat1(path: Path) -> Events:
    return _read(path, np.dtype([("address", ">u2"), ("time", ">u4")]))


def _read(path: Path, kind: np.dtype) -> Events:
    data = mapped(path)
    lines, at = comment_lines(data, "#", END)
    count, left = divmod(len(data) - at, kind.itemsize)
    if left:
        cut_off(path, left, count)
    foreign.check_size(path, 3 * EVENT * count)
    table = np.frombuffer(data[at : at + kind.itemsize * count], kind)
    address, t = table["address"].astype(np.int64), unwrapped(table["time"].astype(np.int64), 1 << 32)
    name = camera(lines)
    if name is None:
        return _of_a_davis(address, t, path, None) if (address & ~OF_A_DVS).any() else _of_a_dvs(address, t, path)
    size = cameras.named(name)
    if size is None or not NAMED.search(name):
        raise ValueError(
            f"it is of the camera {foreign.printable(name)[:80]}, whose addresses are not known here: save its events "
            "as an .npz of x, y, t, p, height and width"
        )
    if re.search("dvs128|tmpdiff128", name, re.IGNORECASE):
        return _of_a_dvs(address, t, None)
    return _of_a_davis(address, t, path, size)


def camera(lines: list[str]) -> str | None:
    """What the header calls it."""
    for word in ("AEChip", "HardwareInterface"):
        for line in lines:
            found = re.match(rf"#\s*{word}:\s*(\S.*)", line)
            if found and word == "AEChip":  # a class of jAER's, or what another program wrote
                return found[1] if " " in found[1] else found[1].rpartition(".")[2]
            known = NAMED.search(found[1]) if found else None
            if known:
                return known[0]
    return None


def _of_a_dvs(address: np.ndarray, t: np.ndarray, unnamed: Path | None) -> Events:
    """Bit 15 marks synchronisation, bit 31 what else is no event."""
    if unnamed is not None and len(t):
        warnings.warn(
            f"{unnamed} does not name its camera: a DVS128 is assumed, as its addresses have 16 bits", stacklevel=2
        )
    x, y, p = 127 - (address >> 1 & 0x7F), 127 - (address >> 8 & 0x7F), 1 - (address & 1)
    return Events.of(x, y, t, p, *DVS).take(address & 0x80008000 == 0)


def _of_a_davis(address: np.ndarray, t: np.ndarray, path: Path, size: cameras.Size | None) -> Events:
    """Bits 31 and 10 mark what is no event: frames, synchronisation, inertial measurements."""
    pixels = address & 0x80000400 == 0
    address, t = address[pixels], t[pixels]
    x, y, p = address >> 12 & 0x3FF, address >> 22 & 0x1FF, address >> 11 & 1
    height, width = size or cameras.assumed(path, cameras.reached(x, y), DAVIS)
    return Events.of(width - 1 - x, height - 1 - y, t, p, height, width)
