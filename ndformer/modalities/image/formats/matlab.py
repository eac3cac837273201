"""Reader of numeric arrays in MATLAB's .mat files of level 5 (all that "save" writes without -v7.3).

A file is a header of 128 bytes, then elements: type and size (two uint32), content, zeros up to a multiple of 8. Small
content (up to 4 bytes) shares the first 8 bytes with a type and a size of 16 bits each. An array is an element of four
elements: flags, dimensions, name, values. Values may have a smaller type than the array, and elements may be deflated.
"""

import struct
import zlib
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
ARRAY, DEFLATED = 14, 15
NUMERIC = range(6, 16)  # classes of arrays: double, single, int8 ... uint64


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """Read the numeric arrays of a .mat file, by name; other content is skipped."""
    try:
        content, inflated_size = foreign.content(path), 0
        if content[126:128] != b"IM" or len(content) < 128:
            raise ValueError("no little-endian MAT file of level 5")
        arrays = {}
        for kind, element in _elements(content[128:], padded=False):
            if kind == DEFLATED:
                element = foreign.inflated(path, element, inflated_size)
                inflated_size += len(element)
                ((kind, element),) = _elements(element)
            if kind != ARRAY:
                continue
            (_, flags), (_, dims), (_, name), *more = _elements(element)
            if flags[0] in NUMERIC:
                values_kind, values = more[0]
                shape = np.frombuffer(dims, "<i4")
                array = np.frombuffer(values, "<" + DTYPES[values_kind]).reshape(shape, order="F")
                arrays[name.decode()] = array
        return arrays
    except (ValueError, KeyError, IndexError, struct.error, zlib.error) as error:
        raise DataError(f"{path} cannot be read as a .mat file ({error}): get it again") from None


def _elements(data: bytes, padded: bool = True) -> list[tuple[int, bytes]]:
    """Split data into elements (type, content). Deflated elements, at the top level, are not padded."""
    elements, start = [], 0
    while start < len(data):
        kind, size = struct.unpack_from("<II", data, start)
        if kind >> 16:  # small
            elements.append((kind & 0xFFFF, data[start + 4 : start + 4 + (kind >> 16)]))
            start += 8
            continue
        if start + 8 + size > len(data):
            raise ValueError("it ends early")
        elements.append((kind, data[start + 8 : start + 8 + size]))
        start += 8 + size + (-size % 8 if padded else 0)
    return elements
