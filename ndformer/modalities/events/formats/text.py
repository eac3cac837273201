"""Events as text: rows of t x y p between blanks, commas or semicolons, or in the order that a line of names has.

Lines that begin with # or % are comments. A first row of two numbers is the sensor's width and height (E2VID's). Times
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


def read_text(path: Path) -> Events:
    return parsed(foreign.text_rows(path))


def parsed(lines: Iterable[str]) -> Events:
    """A ValueError of what is no list of events."""
    names, size, rows = opening(lines)
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
    found = {name: table[:, at] for at, name in enumerate(names or ORDER) if at < table.shape[1]}
    polarity = next((found[name] for name in NAMES["p"] if name in found), np.zeros(0))
    if not np.isin(polarity, (-1, 0, 1)).all():
        raise ValueError("its polarities are not 0 and 1, or -1 and 1: name its columns in the first line, as t x y p")
    return columns(found, list(found), [size] if size else [])


def opening(lines: Iterable[str]) -> tuple[list[str] | None, cameras.Size | None, Iterator[str]]:
    """Names of columns and the sensor's height and width, where the first lines have them, and the rows of numbers."""
    stripped = (line.strip() for line in lines)
    rows = (line for line in stripped if line and line[0] not in "#%")
    names = size = None
    for line in rows:
        words = [word.strip('"') for word in re.split(r"[,;\s]+", line)]
        if names is None and any(re.match(r"[A-Za-z_]", word) for word in words):
            names = [word.lower().partition("[")[0] for word in words]
        elif size is None and len(words) == 2 and all(word.isdigit() for word in words):
            size = cameras.checked(words[1], words[0])
        else:
            return names, size, itertools.chain([line], rows)
    return names, size, iter(())


def looks_like(begin: bytes) -> bool:
    """The beginning of a file, as far as its lines are whole."""
    try:
        return len(parsed(begin.decode().splitlines()[: -1 if len(begin) == 4096 else None])) > 0
    except ValueError:
        return False
