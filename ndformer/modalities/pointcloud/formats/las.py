"""Reader of LAS files of airborne and mobile scanners (ASPRS, versions 1.0 to 1.4), and of compressed LAZ files."""

import importlib
import io
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.columns import Columns

SIZES = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)  # minimum bytes of a point in each format
COLORS = {2: 20, 3: 28, 5: 28, 7: 30, 8: 30, 10: 30}  # offset of red, green and blue in a point, by format
PACKED = 0b1100_0000  # bits of the format number that mark compressed points
LASZIP, FIXED = 22204, 0xFFFFFFFF  # record id of the compression; chunk size where chunks differ in size


class Header(NamedTuple):
    format: int
    packed: bool
    size: int  # bytes of a point
    points: int
    start: int
    records: tuple[int, int]  # offset of the records, and their number
    scale: np.ndarray  # (3,)
    offset: np.ndarray  # (3,)


def parse_las(content: bytes, path: Path) -> Columns:
    """Return x, y and z in float64, the classification, and red, green and blue where present."""
    head = _header(content)
    foreign.check_size(path, 4 * head.points * head.size)
    body = _unpack(content, head, path) if head.packed else content[head.start :]
    if len(body) < head.points * head.size:
        raise ValueError(f"it announces {head.points} points of {head.size} bytes, but {len(body)} bytes follow")
    rows = np.frombuffer(body, np.uint8, head.points * head.size).reshape(head.points, head.size)

    def column(offset: int, kind: str) -> np.ndarray:
        return np.ascontiguousarray(rows[:, offset : offset + np.dtype(kind).itemsize]).view(kind)[:, 0]

    columns = {axis: column(4 * i, "<i4") * head.scale[i] + head.offset[i] for i, axis in enumerate("xyz")}
    if head.format in COLORS:
        offset = COLORS[head.format]
        colors = {name: column(offset + 2 * i, "<u2") for i, name in enumerate(("red", "green", "blue"))}
        columns |= colors if any(values.any() for values in colors.values()) else {}  # all 0: the file has no colors
    return columns | dict(classification=column(16, "u1") if head.format > 5 else column(15, "u1") & 31)


def _header(content: bytes) -> Header:
    if not content.startswith(b"LASF") or len(content) < 227:
        raise ValueError("it does not begin with a LAS header")
    head_size, start, records, number, size, points = struct.unpack_from("<HIIBHI", content, 94)
    if content[25] >= 4 and len(content) >= 255:
        points = struct.unpack_from("<Q", content, 247)[0] or points
    kind = number & ~PACKED
    if kind >= len(SIZES) or size < SIZES[kind]:
        raise ValueError(f"its points must have a format from 0 to 10, got format {kind} with {size} bytes")
    if not 227 <= head_size <= start <= len(content):
        raise ValueError(f"its points begin at byte {start} of {len(content)}")
    place = np.frombuffer(content, "<f8", 6, 131)
    return Header(kind, number != kind, size, points, start, (head_size, records), place[:3], place[3:])


def _unpack(content: bytes, head: Header, path: Path) -> bytes:
    try:
        lazrs: Any = importlib.import_module("lazrs")
    except ImportError:
        raise DataError(f"{path} needs lazrs: pip install 'ndformer[clouds]', or save it as .las") from None
    record = _laszip_record(content, head)
    _check_chunks(content, head, record)
    out = np.zeros(head.points * head.size, np.uint8)
    source = io.BytesIO(content)
    source.seek(head.start)
    try:
        lazrs.LasZipDecompressor(source, record).decompress_many(out)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of lazrs is no Exception
        raise ValueError(f"its packed points are damaged: {error}") from None
    return out.tobytes()


def _laszip_record(content: bytes, head: Header) -> bytes:
    """Return LASzip's record, which describes the compression."""
    start, records = head.records
    for _ in range(records):
        if start + 54 > head.start:
            break
        number, size = struct.unpack_from("<HH", content, start + 18)
        if number == LASZIP and 34 <= size <= head.start - start - 54:
            return content[start + 54 : start + 54 + size]
        start += 54 + size
    raise ValueError("it has no LASzip record, which describes how its points are packed")


def _check_chunks(content: bytes, head: Header, record: bytes) -> None:
    """Check the sizes that lazrs would allocate before it reads anything."""
    chunk, items = struct.unpack_from("<I", record, 12)[0], struct.unpack_from("<H", record, 32)[0]
    item_rows = record[34 : 34 + 6 * items]
    sizes = [size for _, size, _ in struct.iter_unpack("<HHH", item_rows)] if len(item_rows) == 6 * items else []
    table = struct.unpack_from("<q", content, head.start)[0] if len(content) >= head.start + 8 else -1
    table = struct.unpack_from("<q", content, len(content) - 8)[0] if table == -1 else table
    chunks = struct.unpack_from("<I", content, table + 4)[0] if head.start + 8 <= table <= len(content) - 8 else -1
    max_chunks = head.points if chunk == FIXED else -(-head.points // max(chunk, 1))
    if sum(sizes) != head.size or chunk == 0 or not 0 <= chunks <= max_chunks:
        raise ValueError("its LASzip record does not fit its packed points")
