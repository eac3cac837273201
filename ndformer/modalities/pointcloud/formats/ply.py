"""Reader of PLY files, ascii and binary: a table for each element (Turk 1994)."""

import io
from itertools import islice
from typing import NamedTuple

import numpy as np

from ndformer.framework import foreign

TYPES = dict(char="i1", uchar="u1", short="i2", ushort="u2", int="i4", uint="u4", float="f4", double="f8")
TYPES |= dict(int8="i1", uint8="u1", int16="i2", uint16="u2", int32="i4", uint32="u4", float32="f4", float64="f8")
LIST = 200  # bytes of memory for a list, however short
WORDS = 2**12  # rows split into words at once
ORDER = dict(ascii="=", binary_little_endian="<", binary_big_endian=">")


class Property(NamedTuple):
    name: str
    type: str  # of numpy
    length: str | None  # type of a list's length; None for a scalar


class Element(NamedTuple):
    name: str
    rows: int
    properties: list[Property]


def parse_ply(content: bytes) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Return the vertex properties (V,) by name, and the faces (F, k), one array for each number of corners k.

    Raise ValueError for a damaged file.
    """
    order, elements, start = header(content)
    body = io.BytesIO(content[start:])
    vertices: dict[str, np.ndarray] = {}
    faces: list[np.ndarray] = []
    for element in elements:
        _check_claim(element, order, len(content) - start - body.tell())
        table = _ascii(body, element) if order == "=" else _binary(body, element, order)
        if element.name == "vertex":
            vertices = {name: values for name, values in table.items() if isinstance(values, np.ndarray)}
        for name in ("vertex_indices", "vertex_index"):
            if element.name == "face" and name in table:
                if isinstance(table[name], np.ndarray):
                    raise ValueError(f"{name} of its faces is a number and not a list")
                faces = _by_length(table[name])
    return vertices, faces


def header(content: bytes) -> tuple[str, list[Element], int]:
    """Return the byte order, the elements, and the offset of the data."""
    mark = content.find(b"end_header")
    if not content.startswith(b"ply") or mark < 0:
        raise ValueError("it does not begin with a PLY header")
    order, elements = "", []
    for line in content[:mark].decode("ascii", "replace").splitlines():
        match line.split():
            case ["format", kind, _] if kind in ORDER:
                order = ORDER[kind]
            case ["element", name, rows] if rows.isdigit():
                elements.append(Element(name, int(rows), []))
            case ["property", "list", length, kind, name] if length in TYPES and kind in TYPES and elements:
                elements[-1].properties.append(Property(name, TYPES[kind], TYPES[length]))
            case ["property", kind, name] if kind in TYPES and elements:
                elements[-1].properties.append(Property(name, TYPES[kind], None))
            case ["ply"] | ["comment", *_] | ["obj_info", *_] | []:
                pass
            case _:
                raise ValueError(f"its header has the line '{line}'")
    if not order:
        raise ValueError("its header names no format")
    return order, elements, content.index(b"\n", mark) + 1


def _check_claim(element: Element, order: str, left: int) -> None:
    """Raise unless the announced rows fit into the remaining bytes and into memory."""
    if element.rows and not element.properties:
        raise ValueError(f"its '{element.name}' have no properties")
    min_row = 2 if order == "=" else sum(np.dtype(p.length or p.type).itemsize for p in element.properties)
    if element.rows * min_row > left + 1:  # the last line may lack its end
        raise ValueError(f"it announces {element.rows} rows of '{element.name}', but {left} bytes follow")
    lists = sum(p.length is not None for p in element.properties)
    if element.rows * lists * LIST > foreign.limit():
        raise ValueError(f"it announces {element.rows} lists of '{element.name}', more than one file may take")


Column = np.ndarray | list[np.ndarray]  # a list property: one array for each row


def _ascii(body: io.BytesIO, element: Element) -> dict[str, Column]:
    lines = (words for line in foreign.short_lines(body) if (words := line.split()))
    if all(p.length is None for p in element.properties):
        parts, count = [np.zeros((0, len(element.properties)))], 0
        while count < element.rows and (rows := list(islice(lines, min(WORDS, element.rows - count)))):
            values = np.array([words[: len(element.properties)] for words in rows], np.float64).reshape(len(rows), -1)
            if values.shape[1] < len(element.properties):
                raise ValueError(
                    f"its rows of '{element.name}' have {values.shape[1]} numbers for {len(element.properties)} "
                    "properties"
                )
            parts.append(values)
            count += len(rows)
        if count < element.rows:
            raise ValueError(f"it ends after {count} of {element.rows} rows of '{element.name}'")
        columns = zip(element.properties, np.concatenate(parts).T) if count else ()
        return {p.name: column.astype(p.type) if p.type[0] in "iu" else column for p, column in columns}
    table: dict[str, list[np.ndarray]] = {p.name: [] for p in element.properties}
    count = 0
    for words in islice(lines, element.rows):
        index, count = 0, count + 1
        for p in element.properties:
            first = index + (p.length is not None)
            index = index + 1 if p.length is None else first + int(words[index] if index < len(words) else 0)
            if not first <= index <= len(words):
                raise ValueError(f"its row '{' '.join(words)[:80]}' is no {element.name}")
            table[p.name].append(np.array(words[first:index], np.float64).astype(p.type))
    if count < element.rows:
        raise ValueError(f"it ends after {count} of {element.rows} rows of '{element.name}'")
    return dict(table)


def _binary(body: io.BytesIO, element: Element, order: str) -> dict[str, Column]:
    if all(p.length is None for p in element.properties):
        kind = np.dtype([(p.name, order + p.type) for p in element.properties])
        rows = np.frombuffer(_read(body, element.rows * kind.itemsize, element), kind)
        return {name: rows[name] for name in kind.names or ()}
    return _equal_lengths(body, element, order) or _row_by_row(body, element, order)


def _equal_lengths(body: io.BytesIO, element: Element, order: str) -> dict[str, Column] | None:
    """Read rows at once whose lists have the lengths of the first row's. Return None, and read nothing, for others."""
    start = body.tell()
    if element.rows == 0:
        return {p.name: [] for p in element.properties}
    first = _row_by_row(body, element._replace(rows=1), order)
    body.seek(start)
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for p in element.properties:
        fields += [("length " + p.name, order + p.length)] if p.length else []
        fields.append((p.name, order + p.type, (len(first[p.name][0]),)))
    kind = np.dtype(fields)
    content = body.read(element.rows * kind.itemsize)
    if len(content) == element.rows * kind.itemsize:
        rows = np.frombuffer(content, kind)
        lists = [p.name for p in element.properties if p.length]
        if all((rows["length " + name] == rows[name].shape[1]).all() for name in lists):
            return {p.name: list(rows[p.name]) for p in element.properties}
    body.seek(start)
    return None


def _row_by_row(body: io.BytesIO, element: Element, order: str) -> dict[str, Column]:
    table: dict[str, list[np.ndarray]] = {p.name: [] for p in element.properties}
    for _ in range(element.rows):
        for p in element.properties:
            count = 1 if p.length is None else int(_values(body, order + p.length, 1, element)[0])
            table[p.name].append(_values(body, order + p.type, count, element))
    return dict(table)


def _values(body: io.BytesIO, kind: str, count: int, element: Element) -> np.ndarray:
    return np.frombuffer(_read(body, count * np.dtype(kind).itemsize, element), kind)


def _read(body: io.BytesIO, size: int, element: Element) -> bytes:
    content = body.read(size)
    if size < 0 or len(content) < size:
        raise ValueError(f"it ends within its {element.rows} rows of '{element.name}'")
    return content


def _by_length(rows: Column) -> list[np.ndarray]:
    """Group faces of three and more corners into arrays (F, k), one for each number of corners k."""
    lengths = np.array([len(row) for row in rows], np.int64)
    return [
        np.stack([rows[i] for i in np.flatnonzero(lengths == k)]).astype(np.int64)
        for k in np.unique(lengths).tolist()
        if k >= 3
    ]
