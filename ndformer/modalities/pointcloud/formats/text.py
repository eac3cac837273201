"""Reader of point clouds in text files: numbers separated by commas, semicolons or blanks, with or without a header."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.pointcloud.formats.columns import (
    XYZ,
    Columns,
    UnnamedError,
    check_width,
    name_rows,
    plain,
    split_names,
)

COMMENTS = ("#", "//")


def read_text(path: Path, columns: Sequence[str] | None) -> Columns:
    """Read rows of numbers as columns.

    Column names come from `columns`, else from a line of names before the numbers: `x,y,z,r,g,b`, `# X Y Z R G B`, or
    CloudCompare's `//X Y Z R G B`. A single number on the first line counts the points, as in .pts files.
    """
    lines = (line for line in map(str.strip, foreign.text_rows(path)) if line)
    named, first, mark = _header(lines)
    if first is None:
        raise ValueError("it is empty")
    rows = (line for line in lines if not line.startswith(COMMENTS))
    row = np.loadtxt([first], delimiter=mark, ndmin=2)
    names = columns if columns is not None else named if named and len(named) == row.shape[1] else None
    if names is None and named and len(named) > len(XYZ) and row.shape[1] > len(XYZ):
        # the columns would be guessed against what it says
        raise UnnamedError(f"has rows of {row.shape[1]} numbers below {len(named)} names ({' '.join(named):.60})")
    check_width(row) if names is None else name_rows(row, names)  # fail before millions of rows are parsed
    return name_rows(np.loadtxt(itertools.chain([first], rows), delimiter=mark, ndmin=2), names)


def _header(lines: Iterator[str]) -> tuple[list[str] | None, str | None, str | None]:
    """Return the column names, the first row of numbers, and the delimiter."""
    named = None
    for place, line in enumerate(lines):
        mark = next((mark for mark in ",;" if mark in line), None)
        words = split_names(line) if mark is None else [plain(word) for word in line.lstrip("#/% ").split(mark)]
        if set(XYZ) <= set(words):
            named = words
        elif line.startswith(COMMENTS) or (place == (named is not None) and line.isdigit()):
            continue
        else:
            return named, line, next((mark for mark in ",;" if mark in line), None)
    return named, None, None
