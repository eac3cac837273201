"""Description of a file of an ARC task."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.describe import CONTENT, NO, Describer, Description
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.arc.formats.tasks import PARTS, Pair, read_task

BEGIN = re.compile(rb'\s*\{\s*"(train|test)"\s*:\s*\[\s*\{\s*"(input|output)"\s*:\s*\[\s*\[')


@DESCRIBERS.register_module()
class ArcTaskFile(Describer):
    endings = (".json",)

    def claim(self, path: Path, begin: bytes) -> int:
        return CONTENT if path.suffix.lower() == ".json" and BEGIN.match(begin) else NO

    def describe(self, path: Path, rows: int) -> Description:
        task = read_task(path)
        pairs = [pair for part in PARTS for pair in task[part]]
        grids = [grid for pair in pairs for grid in (pair.input, pair.output) if grid is not None]
        facts: dict[str, Any] = dict(format="ARC task", train=len(task["train"]), test=len(task["test"]))
        facts["colors"] = sorted({int(color) for grid in grids for color in np.unique(grid)})
        facts["largest_side"] = max(max(grid.shape) for grid in grids)
        facts["same_size"] = all(pair.output is None or pair.input.shape == pair.output.shape for pair in pairs)
        unsolved = sum(pair.output is None for pair in pairs)
        odd = [f"{unsolved} of {len(pairs)} pairs have no output"] if unsolved else []
        return facts, odd, [_sizes(pair) for pair in pairs[:rows]]


def _sizes(pair: Pair) -> dict[str, Any]:
    sizes = ("x".join(map(str, grid.shape)) if grid is not None else "" for grid in (pair.input, pair.output))
    return dict(zip(("input", "output"), sizes))
