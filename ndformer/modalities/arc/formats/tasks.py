"""Files of ARC's tasks: {"train": [{"input": grid, "output": grid}, ...], "test": [...]}, grids as lists of rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

COLOURS, SIDE = 10, 30  # a cell is 0 to 9, a grid has 1 to 30 rows and columns
PARTS = ("train", "test")
MOST = 100_000  # pairs of a file: 400 times what a generated set of one task has
Grid = np.ndarray  # (h, w) uint8


@dataclass(frozen=True)
class Pair:
    input: Grid
    output: Grid | None  # None where the answer is kept back


def read_task(path: Path) -> dict[str, list[Pair]]:
    """The pairs of `train` and of `test`, both with one at least; else one sentence."""
    try:
        content = foreign.plain_json(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the corpus again, or name another task") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): get it again") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({foreign.single_line(error):.100}): get it again") from None
    if not isinstance(content, dict) or not all(isinstance(content.get(part), list) for part in PARTS):
        raise DataError(f"{path} is no task of ARC: it holds an object with two lists, train and test")
    found = {}
    for part in PARTS:
        pairs = content[part]
        if not 1 <= len(pairs) <= MOST:
            raise DataError(f"{path} has {len(pairs)} pairs in {part}: a task has 1 to {MOST}")
        found[part] = [_pair(pair, f"{path}, {part} {number}") for number, pair in enumerate(pairs)]
    return found


def _pair(pair: Any, name: str) -> Pair:
    if not isinstance(pair, dict) or "input" not in pair:
        raise DataError(f"{name}: a pair is an object with input and output, got {pair!r:.40}")
    output = pair.get("output")
    return Pair(
        grid_of(pair["input"], f"{name}, input"), None if output is None else grid_of(output, f"{name}, output")
    )


def grid_of(rows: Any, name: str) -> Grid:
    lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    if not lists or not 1 <= len(rows) <= SIDE or not 1 <= len(rows[0]) <= SIDE:
        raise DataError(f"{name}: a grid is a list of 1 to {SIDE} rows of 1 to {SIDE} numbers, got {rows!r:.40}")
    if any(len(row) != len(rows[0]) for row in rows):
        raise DataError(f"{name}: its rows have {sorted({len(row) for row in rows})} cells: all have as many")
    wrong = [cell for row in rows for cell in row if type(cell) is not int or not 0 <= cell < COLOURS]
    if wrong:
        raise DataError(f"{name}: a cell is a whole number, 0 to {COLOURS - 1}, got {wrong[0]!r:.40}")
    return np.array(rows, np.uint8)


def write_task(path: Path, pairs: dict[str, list[Pair]]) -> None:
    """The same format."""
    import json

    content = {
        part: [
            dict(input=one.input.tolist(), output=None if one.output is None else one.output.tolist()) for one in some
        ]
        for part, some in pairs.items()
    }
    path.write_text(json.dumps(content), encoding="utf-8")
