"""What a detector that never looks at an image gets: the boxes of training, whatever the image."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ndformer.framework.evaluation.coco import CocoMetric
from ndformer.modalities.image.detection import DetectionDataset

KINDS = (1, "mean box of each class, mAP50"), (16, "16 mean boxes of each class, mAP50")


def mean_boxes(boxes: np.ndarray, count: int, rounds: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """(K, 4) means of the boxes nearest to each other (k-means), and the share of boxes that each stands for."""
    count = min(count, len(boxes))
    middles = boxes[np.linspace(0, len(boxes) - 1, count).astype(int)]
    nearest = np.zeros(len(boxes), np.int64)
    for _ in range(rounds):
        nearest = ((boxes[:, None] - middles) ** 2).sum(-1).argmin(1)
        middles = np.stack([boxes[nearest == k].mean(0) if (nearest == k).any() else middles[k] for k in range(count)])
    return middles, np.bincount(nearest, minlength=count) / len(boxes)


def mean_detections(given: Iterable[tuple[np.ndarray, np.ndarray]], count: int) -> dict[str, np.ndarray]:
    """Of boxes (G, 4) and labels (G,) of each image: the means of each class, the most common ones first."""
    boxes, labels = (np.concatenate(parts) for parts in zip(*given))
    found = [(label, *mean_boxes(boxes[labels == label], count)) for label in np.unique(labels).tolist()]
    return dict(
        boxes=np.concatenate([means for _, means, _ in found]),
        labels=np.repeat([label for label, *_ in found], [len(means) for _, means, _ in found]),
        scores=np.concatenate([share * (labels == label).mean() for label, _, share in found]),
    )


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
            metric.process({}, [sample | dict(found=means | dict(boxes=means["boxes"] * sides(sample)))])
        yield name, metric.compute_metrics(metric.results)["mAP50"]
