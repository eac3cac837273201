"""Safe readers of .npy and .npz files with checked sizes, and the row width of numbers without a header."""

import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from ndformer.framework.foreign.decompress import archive
from ndformer.framework.foreign.files import check_size
from ndformer.framework.foreign.mounts import member, opened, regular

HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
WIDTHS = range(3, 8)  # columns of point clouds with colors, normals or times
MAX_VALUES = 2**13  # numbers used for the guess
SURELY = 3.0  # ratio of differences from which another width is certain


def array(path: Path, mapped: bool = False) -> np.ndarray:
    """Read the array of an .npy file, memory-mapped with `mapped`. Raises OSError or ValueError."""
    with opened(path) as file:
        size = _claimed(file)
        file.seek(0, 2)
        if size > file.tell():
            raise ValueError(f"expected {size} bytes, as its header declares, got {file.tell()}")
    if mapped and size and member(path) is None:
        return np.load(regular(path), mmap_mode="r", allow_pickle=False)
    check_size(path, size)
    with opened(path) as file:
        return np.load(file, allow_pickle=False)


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz file by name."""
    archive(path)
    found: dict[str, np.ndarray] = {}
    with opened(path) as file, np.load(file, allow_pickle=False) as entries:
        for info in entries.zip.infolist():
            with entries.zip.open(info) as entry:
                if _claimed(entry) > info.file_size:
                    raise ValueError(
                        f"{info.filename}: its header declares more bytes than the {info.file_size} that are stored"
                    )
            found[info.filename.removesuffix(".npy")] = entries[info.filename]
    return found


def guess_row_width(values: np.ndarray) -> int:
    """Return the row width with the smallest mean difference between values one row apart: the period of the series."""
    return min(WIDTHS, key=lambda wide: _change(values, wide))


def conflicting_row_width(rows: np.ndarray) -> int | None:
    """Return another row width that fits the numbers read as (n, width) rows clearly better, else None."""
    values = np.nan_to_num(rows.ravel()[:MAX_VALUES])
    likely = guess_row_width(values)
    other = likely != rows.shape[1] and _change(values, rows.shape[1]) > SURELY * _change(values, likely)
    return likely if other else None


def _claimed(file: BinaryIO) -> int:
    """Read an array header and return the array's size in bytes; only numbers, texts and tables of them are allowed."""
    try:
        read = HEADERS.get(npy.read_magic(file))
        if read is None:
            raise ValueError("its header has an unknown version, expected 1.0 or 2.0")
        shape, _, dtype = read(file)
    except (OSError, EOFError):
        raise
    except Exception as error:  # the header is a Python literal, whose parser raises many types
        if "magic" in str(error):
            raise ValueError("it is no array of numbers") from None
        raise ValueError(f"its header is damaged: {' '.join(str(error).split())[:200]}") from None
    if dtype.hasobject:
        raise ValueError("it holds objects of Python, and not numbers")
    if dtype.itemsize == 0 or any(side < 0 for side in shape):
        raise ValueError(f"expected an array of numbers, got {dtype} of shape {shape}")
    return math.prod(shape) * dtype.itemsize


def _change(values: np.ndarray, wide: int) -> float:
    return float(np.abs(values[wide:] - values[:-wide]).mean()) if len(values) > wide else np.inf
