"""Clouds as text: rows of numbers between commas, semicolons or blanks, with or without a header."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.pointcloud.formats.columns import XYZ, Columns, check_width, name_rows, split_names

COMMENTS = ("#", "//")


def read_text(path: Path, columns: Sequence[str] | None) -> Columns:
    """Names come from `columns`, else from a line of names before the numbers: `x,y,z,r,g,b`, `# X Y Z R G B`, or
    CloudCompare's `//X Y Z R G B`. A number alone on a first line counts the points, as in .pts files."""
    lines = (line for line in map(str.strip, foreign.text_rows(path)) if line)
    named, first, mark = _header(lines)
    if first is None:
        raise ValueError("it is empty")
    rows = (line for line in lines if not line.startswith(COMMENTS))
    one = np.loadtxt([first], delimiter=mark, ndmin=2)
    names = columns if columns is not None else named if named and len(named) == one.shape[1] else None
    check_width(one) if names is None else name_rows(one, names)  # before millions of others
    return name_rows(np.loadtxt(itertools.chain([first], rows), delimiter=mark, ndmin=2), names)


def _header(lines: Iterator[str]) -> tuple[list[str] | None, str | None, str | None]:
    """The names of columns, the first row of numbers, and what stands between them."""
    named = None
    for place, line in enumerate(lines):
        words = split_names(line)
        if set(XYZ) <= set(words):
            named = words
        elif line.startswith(COMMENTS) or (place == (named is not None) and line.isdigit()):
            continue
        else:
            return named, line, next((mark for mark in ",;" if mark in line), None)
    return named, None, None
