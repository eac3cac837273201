"""Metrics of answers with a class for every pixel, point or cell: mean IoU, and the share of grids solved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ndformer.framework.errors import DataError, no_class
from ndformer.framework.evaluation.metric import ADVICE, Metric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class MeanIoU(Metric):
    """Shares: `mIoU` and `mean_accuracy` over classes, and the `accuracy` of all pixels or points.

    It reads Pixels and Points: `truth` (integers of any shape, negative where unknown), `predicted` in the same shape,
    and the number of `classes`. A class that never occurs is left out of the means (`absent='skip'`) or counts as 0
    (`'zero'`, as in ScanNet's benchmark).
    """

    main, better, unit = "mIoU", "higher", "share"
    words = dict(
        mIoU="mean IoU of classes", mean_accuracy="mean accuracy of classes", accuracy="accuracy of all places"
    )

    def __init__(self, absent: Literal["skip", "zero"] = "skip") -> None:
        super().__init__()
        self.absent = absent

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            name = answer.path or "a sample"
            if answer.truth is None:
                raise DataError(f"{name} has no labels. MeanIoU needs labels for all samples")
            counts = counted(np.asarray(answer.truth), np.asarray(answer.predicted), answer.classes, name)
            where = np.flatnonzero(counts)  # stored sparsely: a sample has few of many classes
            self.results.append((answer.classes, where, counts.ravel()[where]))

    def compute_metrics(self, results: list[tuple[int, np.ndarray, np.ndarray]]) -> dict[str, float]:
        classes = results[0][0]
        total = np.zeros(classes * classes, np.int64)
        for _, where, counts in results:
            total[where] += counts
        if not total.any():
            raise DataError(
                "expected labels in this set, got unlabeled pixels or points only. Unlabeled is 255 in a mask (with "
                "zero_is_nothing also 0), and `ignore` in a scene"
            )
        self.confusion = total.reshape(classes, classes)
        iou, accuracy = self.per_class()
        right, largest = (int(count) for count in (self.confusion.trace(), self.confusion.sum(1).max()))
        self.remark = None
        if right <= largest < total.sum():
            self.remark = (
                f"accuracy {right / total.sum():.4f} is not above {largest / total.sum():.4f}, which always answering "
                f"the most frequent class reaches: {ADVICE}"
            )
        return dict(
            mIoU=float(np.nanmean(iou)),
            mean_accuracy=float(np.nanmean(accuracy)),
            accuracy=float(right / total.sum()),
        )

    def per_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Return IoU and accuracy (C,) of the last evaluation; absent classes are NaN, or 0 with absent='zero'."""
        right, truth = self.confusion.diagonal(), self.confusion.sum(1)
        union = truth + self.confusion.sum(0) - right
        absent = np.nan if self.absent == "skip" else 0.0
        iou, accuracy = (
            np.divide(right, total, out=np.full(len(right), absent), where=total > 0) for total in (union, truth)
        )
        return iou, accuracy

    def views(self, folder: Path | None, classes: Sequence[str]) -> str:
        """Return the table of classes of the last evaluation, in percent."""
        columns = [100 * column for column in (*self.per_class(), self.confusion.sum(1) / self.confusion.sum())]
        width = max(5, *map(len, classes))
        lines = [f"{'class':{width}}    IoU  accuracy  share"]
        for name, *values in zip(classes, *columns):
            iou, accuracy, share = ("-" if np.isnan(value) else f"{value:.1f}" for value in values)
            lines.append(f"{name:{width}}{iou:>7}{accuracy:>10}{share:>7}")
        return "\n".join(lines)


@METRICS.register_module()
class SolveRate(Metric):
    """Shares: `solve_rate` of grids (exact match), and `cell_accuracy` of the cells of all grids together.

    It reads Cells, Pixels and Points. Cells with a negative truth are ignored.
    """

    main, better, unit = "solve_rate", "higher", "share"
    words = dict(solve_rate="tasks solved", cell_accuracy="cells of the canvas that are right")

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            if answer.truth is None:
                raise DataError(f"{answer.path or 'a sample'} has no true answer. Remove it from the test set.")
            truth = np.asarray(answer.truth)
            right = (truth == np.asarray(answer.predicted))[truth >= 0]
            self.results.append((int(right.sum()), right.size))

    def compute_metrics(self, results: list[tuple[int, int]]) -> dict[str, float]:
        right, cells = np.array([pair for pair in results if pair[1]], np.int64).reshape(-1, 2).T
        if not len(cells):
            raise DataError("expected known cells in this set, got cells with a negative truth only")
        return dict(solve_rate=float((right == cells).mean()), cell_accuracy=float(right.sum() / max(1, cells.sum())))


def counted(truth: np.ndarray, predicted: np.ndarray, classes: int, name: str = "a sample") -> np.ndarray:
    """Return the confusion matrix (C, C), truth in rows, over positions with a known class."""
    known = truth >= 0
    truth, predicted = truth[known].astype(np.int64), predicted[known].astype(np.int64)
    if truth.size and int(truth.max()) >= classes:
        remedy = "give the head as many as the data has, and use negative labels for unknown classes"
        raise no_class(name, truth.max(), classes, remedy)
    wrong = predicted[(predicted < 0) | (predicted >= classes)]
    if wrong.size:
        raise ValueError(
            f"a head predicted class {wrong[0]} for {name}, but there are {classes}: predict() gives 0 to {classes - 1}"
        )
    return np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)
