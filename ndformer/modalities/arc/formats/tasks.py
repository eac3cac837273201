"""ARC task files: {"train": [{"input": grid, "output": grid}, ...], "test": [...]}, grids as lists of rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

COLORS, SIDE = 10, 30  # a cell is 0 to 9, a grid has 1 to 30 rows and columns
PARTS = ("train", "test")
MAX_PAIRS = 100_000  # of a file: 400 times the size of a generated task
Grid = np.ndarray  # (h, w) uint8


@dataclass(frozen=True)
class Pair:
    """An input grid and its output grid."""

    input: Grid
    output: Grid | None  # None where the answer is not published


def read_task(path: Path) -> dict[str, list[Pair]]:
    """Read the pairs of `train` and `test`, each with at least one."""
    content = foreign.json_or_error(path, "get the corpus again, or name another task")
    if not isinstance(content, dict) or not all(isinstance(content.get(part), list) for part in PARTS):
        raise DataError(f"{path} is no task of ARC: it must be an object with two lists, train and test")
    parts = {}
    for part in PARTS:
        pairs = content[part]
        if not 1 <= len(pairs) <= MAX_PAIRS:
            raise DataError(f"{path} has {len(pairs)} pairs in {part}: a task has 1 to {MAX_PAIRS}")
        parts[part] = [_pair(pair, f"{path}, {part} {number}") for number, pair in enumerate(pairs)]
    return parts


def _pair(pair: Any, name: str) -> Pair:
    if not isinstance(pair, dict) or "input" not in pair:
        raise DataError(f"{name}: a pair must be an object with input and output, got {pair!r:.40}")
    output = pair.get("output")
    return Pair(
        parse_grid(pair["input"], f"{name}, input"), None if output is None else parse_grid(output, f"{name}, output")
    )


def parse_grid(rows: Any, name: str) -> Grid:
    lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    if not lists or not 1 <= len(rows) <= SIDE or not 1 <= len(rows[0]) <= SIDE:
        raise DataError(f"{name}: a grid must be a list of 1 to {SIDE} rows of 1 to {SIDE} numbers, got {rows!r:.40}")
    if any(len(row) != len(rows[0]) for row in rows):
        raise DataError(
            f"{name}: its rows have {sorted({len(row) for row in rows})} cells: all must have the same number"
        )
    wrong = [cell for row in rows for cell in row if type(cell) is not int or not 0 <= cell < COLORS]
    if wrong:
        raise DataError(f"{name}: a cell must be an integer from 0 to {COLORS - 1}, got {wrong[0]!r:.40}")
    return np.array(rows, np.uint8)


def write_task(path: Path, pairs: dict[str, list[Pair]]) -> None:
    """Write a task file."""
    import json

    content = {
        part: [
            dict(input=pair.input.tolist(), output=None if pair.output is None else pair.output.tolist())
            for pair in some
        ]
        for part, some in pairs.items()
    }
    path.write_text(json.dumps(content), encoding="utf-8")
