"""Reader of PCD files of the Point Cloud Library: ascii, binary and binary_compressed, version 0.7 and before."""

import io
from itertools import islice

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.pointcloud.formats.columns import Columns

KEYS = ("VERSION", "FIELDS", "COLUMNS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
TYPES = {f"{kind}{size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)} | dict(F4="<f4", F8="<f8")
MAX_LZF_RATIO = 132  # bytes that LZF can make of one byte
LINE = 4096  # bytes of a header line, at most
CHANNELS = (("red", 16), ("green", 8), ("blue", 0))  # with their bit offsets
PACKED = ("rgb", "rgba")  # fields with a color in the four bytes of one number


def parse_pcd(content: bytes) -> Columns:
    """Return the scalar fields by name, with rgb split into red, green and blue; ValueError for damaged files."""
    head, how, start = _header(content)
    fields, rows = _fields(head), int(head["POINTS"][0])
    row = np.dtype([(name, kind, (count,)) for name, kind, count in fields])
    if how == "ascii":
        table = _ascii(content[start:], row, rows)
    elif how in ("binary", "binary_compressed"):
        body = content[start:] if how == "binary" else _unpack(content[start:], rows * row.itemsize)
        if len(body) < rows * row.itemsize:
            raise ValueError(f"it announces {rows} points of {row.itemsize} bytes, but {len(body)} bytes follow")
        table = _rows(body, row, rows) if how == "binary" else _columns(body, row, rows)
    else:
        raise ValueError(f"its DATA is '{how[:40]}', and not ascii, binary or binary_compressed")
    columns: Columns = {}
    for name, values in table.items():
        if name.lower() in PACKED and values.dtype.itemsize == 4:
            bits = np.ascontiguousarray(values).view("<u4")
            columns |= {color: (bits >> shift & 255).astype("u1") for color, shift in CHANNELS}
        else:
            columns[name] = values
    return columns


def _header(content: bytes) -> tuple[dict[str, list[str]], str, int]:
    """Return the header lines by their first word, the kind of data, and the offset of the data."""
    head: dict[str, list[str]] = {}
    offset = 0
    while "DATA" not in head:
        end = content.find(b"\n", offset, offset + LINE)
        words = content[offset:end].decode("ascii", "replace").split()
        if end < 0 or (words and not words[0].startswith("#") and words[0] not in KEYS):
            raise ValueError("it does not begin with a PCD header")
        offset = end + 1
        if words and not words[0].startswith("#"):
            head[words[0]] = words[1:]
    head.setdefault("FIELDS", head.get("COLUMNS", []))
    head.setdefault("COUNT", ["1"] * len(head["FIELDS"]))
    if "POINTS" not in head:
        head["POINTS"] = [str(int((head.get("WIDTH") or "1")[0]) * int((head.get("HEIGHT") or "1")[0]))]
    lost = next((key for key in ("FIELDS", "SIZE", "TYPE", "POINTS", "DATA") if not head.get(key)), None)
    if lost is not None or not head["POINTS"][0].isdigit():
        raise ValueError(f"its header has no {lost or 'POINTS'}")
    return head, head["DATA"][0], offset


def _fields(head: dict[str, list[str]]) -> list[tuple[str, str, int]]:
    """Return name, numpy type and count of each field; padding fields, all named _, get unique names."""
    fields, names = [], head["FIELDS"]
    if not len(names) == len(head["SIZE"]) == len(head["TYPE"]) == len(head["COUNT"]):
        raise ValueError("its header has not as many SIZE, TYPE and COUNT as FIELDS")
    for i, (name, size, kind, count) in enumerate(zip(names, head["SIZE"], head["TYPE"], head["COUNT"])):
        if kind + size not in TYPES or not count.isdigit() or not 0 < int(count) < 2**16:
            raise ValueError(f"its field {name[:40]} is of type {kind[:8]}, size {size[:8]} and count {count[:8]}")
        fields.append((f"_{i}" if name == "_" or name in names[:i] else name, TYPES[kind + size], int(count)))
    return fields


def _ascii(body: bytes, row: np.dtype, rows: int) -> Columns:
    lines = (line for line in foreign.short_lines(io.BytesIO(body)) if line.strip())
    numbers = sum(row[name].shape[0] for name in row.names or ())
    table = np.loadtxt(islice(lines, rows), ndmin=2, comments=None) if rows and body.strip() else np.zeros((0, numbers))
    if table.shape != (rows, numbers):
        raise ValueError(f"it announces {rows} points of {numbers} numbers and holds {len(table)} of {table.shape[1]}")
    columns, column = {}, 0
    for name in row.names or ():
        base, (count, *_) = row[name].subdtype or (row[name], (1,))
        if count == 1:
            columns[name] = table[:, column].astype(base)
        column += count
    return columns


def _rows(body: bytes, row: np.dtype, rows: int) -> Columns:
    table = np.frombuffer(body, row, rows)
    return {name: table[name][:, 0] for name in row.names or () if table[name].shape[1] == 1}


def _columns(body: bytes, row: np.dtype, rows: int) -> Columns:
    """Read the fields one after the other, as compressed files store them."""
    columns, offset = {}, 0
    for name in row.names or ():
        base, count = row[name].subdtype or (row[name], (1,))
        if count == (1,):
            columns[name] = np.frombuffer(body, base, rows, offset)
        offset += rows * row[name].itemsize
    return columns


def _unpack(body: bytes, size: int) -> bytes:
    if len(body) < 8:
        raise ValueError("it ends before its packed points")
    packed, unpacked = np.frombuffer(body, "<u4", 2).tolist()
    if packed > len(body) - 8 or unpacked != size or unpacked > MAX_LZF_RATIO * packed:
        raise ValueError(
            f"it announces {packed} packed bytes for {unpacked}, but {len(body) - 8} follow for {size} bytes of points"
        )
    return lzf(body[8 : 8 + packed], unpacked)


def lzf(packed: bytes, size: int) -> bytes:
    """Decompress LZF (Lehmann): literal runs and copies of earlier bytes."""
    out, position = bytearray(), 0
    try:
        while position < len(packed):
            control = packed[position]
            position += 1
            if control < 32:  # a run of control + 1 bytes
                out += packed[position : position + control + 1]
                position += control + 1
                continue
            length = control >> 5
            if length == 7:
                length += packed[position]
                position += 1
            back = ((control & 31) << 8 | packed[position]) + 1
            position += 1
            if back > len(out):
                raise ValueError("its packed points are damaged")
            begin, length = len(out) - back, length + 2
            out += out[begin : begin + length] if back >= length else (out[begin:] * (length // back + 1))[:length]
            if len(out) > size:
                break
    except IndexError:
        raise ValueError("its packed points end too early") from None
    if len(out) != size:
        raise ValueError(f"its packed points become {len(out)} bytes, and {size} were announced")
    return bytes(out)
