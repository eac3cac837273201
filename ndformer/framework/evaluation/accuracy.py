"""Classification: accuracy, mean accuracy over classes, top 5, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.engine.compat import BaseMetric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class Accuracy(BaseMetric):
    """Fractions of right labels: `accuracy` of all samples, `mean_accuracy` over classes, `top5` from 10 classes on."""

    main = "accuracy"  # what the best checkpoint is best at
    default_prefix = ""
    confusion: np.ndarray  # (classes, classes) counts, rows are the truth; of the last evaluation

    def process(self, data_batch: Any, data_samples: Sequence[dict[str, Any]]) -> None:
        for sample in data_samples:
            scores, label = sample["scores"], int(sample["label"])
            rank = int((scores > scores[label]).sum())
            self.results.append((label, int(sample["prediction"]), rank, len(scores)))

    def compute_metrics(self, results: list[tuple[int, int, int, int]]) -> dict[str, float]:
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
