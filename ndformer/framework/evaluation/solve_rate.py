"""Solve rate: the share of answers in which every cell is correct (exact match)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class SolveRate(Metric):
    """Shares: `solve_rate` of grids, and `cell_accuracy` of the cells of all grids together.

    It reads Cells, Pixels and Points. Cells with a negative truth are ignored.
    """

    main, better, unit = "solve_rate", "higher", "share"
    words = dict(solve_rate="tasks solved", cell_accuracy="cells that are right")

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            if answer.truth is None:
                raise DataError(f"{answer.path or 'a sample'} has no true answer. Remove it from the test set.")
            truth = np.asarray(answer.truth)
            right = (truth == np.asarray(answer.predicted))[truth >= 0]
            self.results.append((int(right.sum()), right.size))

    def compute_metrics(self, results: list[tuple[int, int]]) -> dict[str, float]:
        right, cells = np.array(results).T
        return dict(solve_rate=float((right == cells).mean()), cell_accuracy=float(right.sum() / max(1, cells.sum())))
