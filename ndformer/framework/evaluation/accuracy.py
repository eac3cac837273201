"""Classification: accuracy, mean accuracy over classes, top-5 (of top-k), and the confusion matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class Accuracy(Metric):
    """Fractions of right labels: `accuracy` of all samples, `mean_accuracy` over classes, `top5` from 10 classes on.

    `average_by` names what samples of one thing have in common ('path': clips of one video): their scores are averaged
    first, and each thing counts once.
    """

    main, better, unit = "accuracy", "higher", "share"
    words = dict(mean_accuracy="mean accuracy of classes", top5="accuracy among the first 5")

    def __init__(self, average_by: str | None = None) -> None:
        super().__init__()
        self.average_by = average_by

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            scores, label = answer.scores, answer.label
            if self.average_by is None:
                self.results.append(_judged(scores, label))
            else:
                self.results.append((str(answer.sample[self.average_by]), scores, label))

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        if self.average_by is not None:
            of: dict[str, list[tuple[Tensor, int]]] = {}
            for name, scores, label in results:
                of.setdefault(name, []).append((scores, label))
            results = [_judged(torch.stack([s for s, _ in some]).mean(0), some[0][1]) for some in of.values()]
        label, prediction, rank, classes = np.array(results, dtype=np.int64).T
        count = int(classes[0])
        self.confusion = np.bincount(label * count + prediction, minlength=count * count).reshape(count, count)
        of_class = self.confusion.sum(1)
        present = of_class > 0
        recall = self.confusion.diagonal()[present] / of_class[present]
        metrics = dict(accuracy=float((label == prediction).mean()), mean_accuracy=float(recall.mean()))
        if count >= 10:
            metrics["top5"] = float((rank < 5).mean())
        return metrics


def _judged(scores: Tensor, label: int) -> tuple[int, int, int, int]:
    """The label, what is predicted, how many classes come before the label, and of how many classes.

    A class that scores the same comes before it: a model that cannot tell them apart is not right by chance. So does
    one whose score is NaN.
    """
    before = len(scores) - 1 - int((scores < scores[label]).sum())
    others = scores.clone()
    others[label] = -torch.inf
    return label, int(others.argmax()) if before else label, before, len(scores)
