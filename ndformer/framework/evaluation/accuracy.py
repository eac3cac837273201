"""Classification metrics: accuracy, mean accuracy over classes, top-5 (top-k) accuracy, confusion matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import ADVICE, Metric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class Accuracy(Metric):
    """Shares of correct labels: `accuracy`, `mean_accuracy` over classes, and `top5` with 10 or more classes.

    `average_by` is a key that samples of one object share ('path': the clips of a video). Their scores are averaged
    first, so that each object counts once.
    """

    main, better, unit = "accuracy", "higher", "share"
    words = dict(mean_accuracy="mean accuracy of classes", top5="accuracy among the first 5")

    def __init__(self, average_by: str | None = None) -> None:
        super().__init__()
        self.average_by = average_by

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            scores, label = answer.scores, answer.label
            if label < 0:
                raise DataError(
                    f"{answer.path or 'a sample'} has no label, so it has no accuracy. Use ndformer predict"
                )
            if self.average_by is None:
                self.results.append(_judged(scores, label))
            else:
                self.results.append((str(answer.sample[self.average_by]), scores, label))

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        if self.average_by is not None:
            groups: dict[str, list[tuple[Tensor, int]]] = {}
            for name, scores, label in results:
                groups.setdefault(name, []).append((scores, label))
            results = [_judged(torch.stack([s for s, _ in group]).mean(0), group[0][1]) for group in groups.values()]
        label, prediction, rank, classes = np.array(results, dtype=np.int64).T
        count = int(classes[0])
        self.confusion = np.bincount(label * count + prediction, minlength=count * count).reshape(count, count)
        totals = self.confusion.sum(1)
        present = totals > 0
        recall = self.confusion.diagonal()[present] / totals[present]
        self.correct = label == prediction
        self.remark = _above_constant(int(self.correct.sum()), int(totals.max()), len(label))
        metrics = dict(accuracy=float(self.correct.mean()), mean_accuracy=float(recall.mean()))
        if count >= 10:
            metrics["top5"] = float((rank < 5).mean())
        return metrics


def _above_constant(correct: int, largest: int, samples: int) -> str | None:
    """Return a remark unless the accuracy is two standard errors above that of always the most frequent class."""
    constant = largest / samples
    if correct / samples > constant + 2 * (constant * (1 - constant) / samples) ** 0.5 or constant == 1:
        return None
    return (
        f"accuracy {correct / samples:.4f} is not clearly above {constant:.4f}, which always answering the most "
        f"frequent class reaches: {ADVICE}"
    )


def _judged(scores: Tensor, label: int) -> tuple[int, int, int, int]:
    """Return the label, the prediction, the rank of the label (from 0) and the number of classes.

    Classes with an equal or NaN score rank before the label, so a constant model is not correct by chance.
    """
    rank = len(scores) - 1 - int((scores < scores[label]).sum())
    without_label = scores.clone()
    without_label[label] = -torch.inf
    return label, int(without_label.argmax()) if rank else label, rank, len(scores)
