"""LAS files of airborne and mobile scanners (ASPRS, versions 1.0 to 1.4), and LAZ, which are the same, packed."""

import importlib
import io
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.columns import Columns

SIZES = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)  # bytes of a point, format by format; there may be more
COLOURS = {2: 20, 3: 28, 5: 28, 7: 30, 8: 30, 10: 30}  # where red, green and blue stand in it
PACKED = 0b1100_0000  # of a format's number
LASZIP, FIXED = 22204, 0xFFFFFFFF  # the record that tells how points are packed; chunks not all of one size


class Header(NamedTuple):
    format: int
    packed: bool
    size: int  # of a point
    points: int
    start: int
    records: tuple[int, int]  # where they begin, and how many there are
    scale: np.ndarray  # (3,)
    offset: np.ndarray  # (3,)


def parse_las(content: bytes, path: Path) -> Columns:
    """x, y and z in float64, red, green and blue where there are some, and the classification."""
    head = _header(content)
    foreign.check_size(path, 4 * head.points * head.size)
    body = _unpacked(content, head, path) if head.packed else content[head.start :]
    if len(body) < head.points * head.size:
        raise ValueError(f"it announces {head.points} points of {head.size} bytes, but {len(body)} bytes follow")
    rows = np.frombuffer(body, np.uint8, head.points * head.size).reshape(head.points, head.size)

    def column(at: int, kind: str) -> np.ndarray:
        return np.ascontiguousarray(rows[:, at : at + np.dtype(kind).itemsize]).view(kind)[:, 0]

    found = {axis: column(4 * i, "<i4") * head.scale[i] + head.offset[i] for i, axis in enumerate("xyz")}
    if head.format in COLOURS:
        found |= {name: column(COLOURS[head.format] + 2 * i, "<u2") for i, name in enumerate(("red", "green", "blue"))}
        if not any(found[name].any() for name in ("red", "green", "blue")):  # a format's place for them, left empty
            found = {axis: found[axis] for axis in "xyz"}
    return found | dict(classification=column(16, "u1") if head.format > 5 else column(15, "u1") & 31)


def _header(content: bytes) -> Header:
    if not content.startswith(b"LASF") or len(content) < 227:
        raise ValueError("it does not begin with a LAS header")
    head_size, start, records, number, size, points = struct.unpack_from("<HIIBHI", content, 94)
    if content[25] >= 4 and len(content) >= 255:
        points = struct.unpack_from("<Q", content, 247)[0] or points
    kind = number & ~PACKED
    if kind >= len(SIZES) or size < SIZES[kind]:
        raise ValueError(f"its points are of format {kind} with {size} bytes, and formats 0 to 10 are known")
    if not 227 <= head_size <= start <= len(content):
        raise ValueError(f"its points begin at byte {start} of {len(content)}")
    place = np.frombuffer(content, "<f8", 6, 131)
    return Header(kind, number != kind, size, points, start, (head_size, records), place[:3], place[3:])


def _unpacked(content: bytes, head: Header, path: Path) -> bytes:
    try:
        lazrs: Any = importlib.import_module("lazrs")
    except ImportError:
        raise DataError(f"{path} takes lazrs to be read: pip install 'ndformer[clouds]', or save it as .las") from None
    how = _how_packed(content, head)
    _check_chunks(content, head, how)
    out = np.zeros(head.points * head.size, np.uint8)
    source = io.BytesIO(content)
    source.seek(head.start)
    try:
        lazrs.LasZipDecompressor(source, how).decompress_many(out)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # lazrs panics, which is no Exception
        raise ValueError(f"its packed points are damaged: {error}") from None
    return out.tobytes()


def _how_packed(content: bytes, head: Header) -> bytes:
    """LASzip's record."""
    at, records = head.records
    for _ in range(records):
        if at + 54 > head.start:
            break
        number, size = struct.unpack_from("<HH", content, at + 18)
        if number == LASZIP and 34 <= size <= head.start - at - 54:
            return content[at + 54 : at + 54 + size]
        at += 54 + size
    raise ValueError("it does not say how its points are packed")


def _check_chunks(content: bytes, head: Header, how: bytes) -> None:
    """What lazrs would make place for, before anything else is looked at."""
    chunk, items = struct.unpack_from("<I", how, 12)[0], struct.unpack_from("<H", how, 32)[0]
    told = how[34 : 34 + 6 * items]
    sizes = [size for _, size, _ in struct.iter_unpack("<HHH", told)] if len(told) == 6 * items else []
    at = struct.unpack_from("<q", content, head.start)[0] if len(content) >= head.start + 8 else -1
    at = struct.unpack_from("<q", content, len(content) - 8)[0] if at == -1 else at
    chunks = struct.unpack_from("<I", content, at + 4)[0] if head.start + 8 <= at <= len(content) - 8 else -1
    most = head.points if chunk == FIXED else -(-head.points // max(chunk, 1))
    if sum(sizes) != head.size or chunk == 0 or not 0 <= chunks <= most:
        raise ValueError("what it says of its packed points does not agree")
