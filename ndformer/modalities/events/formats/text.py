"""Reader of events as text: rows of t x y p separated by blanks, commas or semicolons, or in the order of a header.

Lines that begin with # or % are comments. A first row of two numbers gives the sensor's width and height (E2VID). Times
are seconds where they have fractions, else microseconds.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats import cameras
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.formats.tables import NAMES, columns

ORDER = ["t", "x", "y", "p"]
UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}  # microseconds of a unit in a header: t[us]


def read_text(path: Path) -> Events:
    return parsed(foreign.text_rows(path))


def parsed(lines: Iterable[str]) -> Events:
    """Parse lines as events; raise a ValueError for other text."""
    named, size, rows = opening(lines)
    names = None if named is None else [name.partition("[")[0] for name in named]
    first = next(rows, None)
    if first is None and names is None and size is None:
        raise ValueError("it has no rows of numbers")
    if first is None:
        return Events.none(*(size or (1, 1)))
    mark = next((mark for mark in ",;" if mark in first), None)
    wide = len(first.split(mark))
    if names is None and wide != len(ORDER):
        raise ValueError(f"its rows have {wide} numbers and not the four of t x y p: name them in the first line")
    table = np.loadtxt(itertools.chain([first], rows), delimiter=mark, ndmin=2)
    table_columns = {name: table[:, i] for i, name in enumerate(names or ORDER) if i < table.shape[1]}
    for name, unit in [word.rstrip("]").split("[", 1) for word in named or () if "[" in word]:
        if name in NAMES["t"] and name in table_columns:
            if unit not in UNITS:
                raise ValueError(f"its times are in '{unit}', which must be one of {', '.join(UNITS)}")
            table_columns[name] = np.rint(table_columns[name] * UNITS[unit])
    polarity = next((table_columns[name] for name in NAMES["p"] if name in table_columns), np.zeros(0))
    if not np.isin(polarity, (-1, 0, 1)).all():
        raise ValueError("its polarities are not 0 and 1, or -1 and 1: name its columns in the first line, as t x y p")
    return columns(table_columns, list(table_columns), [size] if size else [])


def opening(lines: Iterable[str]) -> tuple[list[str] | None, cameras.Size | None, Iterator[str]]:
    """Return column names and the sensor's height and width, if the first lines have them, and the rows of numbers."""
    stripped = (line.strip() for line in lines)
    rows = (line for line in stripped if line and line[0] not in "#%")
    names = size = None
    for line in rows:
        words = [word.strip('"') for word in re.split(r"[,;\s]+", line)]
        if names is None and any(re.match(r"[A-Za-z_]", word) for word in words):
            names = [word.lower() for word in words]
        elif size is None and len(words) == 2 and all(word.isdigit() for word in words):
            size = cameras.check_size(words[1], words[0])
        else:
            return names, size, itertools.chain([line], rows)
    return names, size, iter(())


def is_recording(begin: bytes) -> bool:
    """Return whether a file can be a list of events by its first complete lines."""
    try:
        return len(parsed(begin.decode().splitlines()[: -1 if len(begin) == 4096 else None])) > 0
    except ValueError:
        return False
