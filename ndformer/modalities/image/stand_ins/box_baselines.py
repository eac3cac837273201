"""What a detector that never looks at an image gets: the boxes of training, whatever the image."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.evaluation.coco.metric import CocoMetric
from ndformer.framework.evaluation.simple import KINDS, mean_detections
from ndformer.modalities.image.datasets.detection import DetectionDataset


def baselines(train: DetectionDataset, test: DetectionDataset) -> Iterable[tuple[str, float]]:
    """mAP50 of a detector that finds in every image the mean boxes of training, as shares of its sides."""
    sides = lambda sample: np.tile(sample["size"][::-1], 2)
    read = [train.read(record) for record in train.records]
    given = [(sample["boxes"] / sides(sample), sample["labels"]) for sample in read]
    for count, name in KINDS:
        means = mean_detections(given, count)
        metric = CocoMetric()
        for record in test.records:
            sample = test.read(record)
            found = means | dict(boxes=means["boxes"] * sides(sample))
            metric.process({}, [Boxes(sample=sample, **found)])
        yield name, metric.compute_metrics(metric.results)["mAP50"]
