"""mIoU, a class for every pixel or point: intersection over union, from one confusion matrix over the whole set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ndformer.framework.errors import DataError, no_class
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class MeanIoU(Metric):
    """Fractions: `mIoU` and `mean_accuracy` over classes, and the `accuracy` of all pixels or points.

    Of Pixels and Points: their `truth`, whole numbers in any shape, negative where nobody knows, what was `predicted`
    in the same shape, and how many `classes` there are. A class that never occurs is left out of the means
    (`absent='skip'`), or counts as 0 there ('zero'), as ScanNet's benchmark has it.
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
                raise DataError(f"{name} has no labels, so nothing can be measured on it")
            counts = counted(np.asarray(answer.truth), np.asarray(answer.predicted), answer.classes, name)
            where = np.flatnonzero(counts)  # few of many classes
            self.results.append((answer.classes, where, counts.ravel()[where]))

    def compute_metrics(self, results: list[tuple[int, np.ndarray, np.ndarray]]) -> dict[str, float]:
        classes = results[0][0]
        total = np.zeros(classes * classes, np.int64)
        for _, where, counts in results:
            total[where] += counts
        if not total.any():
            raise DataError(
                "nothing in this set has a label, so there is nothing to measure: what nobody knows is 255 in a mask, "
                "0 too with zero_is_nothing, and `ignore` in a scene"
            )
        self.confusion = total.reshape(classes, classes)
        iou, accuracy = self.of_classes()
        return dict(
            mIoU=float(np.nanmean(iou)),
            mean_accuracy=float(np.nanmean(accuracy)),
            accuracy=float(self.confusion.trace() / total.sum()),
        )

    def of_classes(self) -> tuple[np.ndarray, np.ndarray]:
        """IoU and accuracy (C,) of the last evaluation; where a class never occurs nan, or 0 with absent='zero'."""
        right, truth = self.confusion.diagonal(), self.confusion.sum(1)
        union = truth + self.confusion.sum(0) - right
        never = np.nan if self.absent == "skip" else 0.0
        iou, accuracy = (
            np.divide(right, all_of_it, out=np.full(len(right), never), where=all_of_it > 0)
            for all_of_it in (union, truth)
        )
        return iou, accuracy

    def views(self, folder: Path | None, classes: Sequence[str]) -> str:
        """Of the last evaluation: the table of classes, in percent."""
        columns = [100 * column for column in (*self.of_classes(), self.confusion.sum(1) / self.confusion.sum())]
        width = max(5, *map(len, classes))
        lines = [f"{'class':{width}}    IoU  accuracy  share"]
        for name, *values in zip(classes, *columns):
            iou, accuracy, share = ("-" if np.isnan(value) else f"{value:.1f}" for value in values)
            lines.append(f"{name:{width}}{iou:>7}{accuracy:>10}{share:>7}")
        return "\n".join(lines)


def counted(truth: np.ndarray, predicted: np.ndarray, classes: int, name: str = "a sample") -> np.ndarray:
    """(C, C): how often class i (rows) was taken for class j, wherever the truth is known."""
    known = truth >= 0
    truth, predicted = truth[known].astype(np.int64), predicted[known].astype(np.int64)
    if truth.size and int(truth.max()) >= classes:
        remedy = "give the head as many as the data has, and negative labels to what nobody knows"
        raise no_class(name, truth.max(), classes, remedy)
    wrong = predicted[(predicted < 0) | (predicted >= classes)]
    if wrong.size:
        raise ValueError(
            f"a head predicted class {wrong[0]} for {name}, but there are {classes}: predict() gives 0 to {classes - 1}"
        )
    return np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)
