"""What a detector that never looks at an image gets: the boxes of training, whatever the image."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ndformer.framework.evaluation.coco import CocoMetric
from ndformer.modalities.image.detection import DetectionDataset


def mean_boxes(boxes: np.ndarray, count: int, rounds: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """(K, 4) means of the boxes nearest to each other (k-means), and the share of boxes that each stands for."""
    count = min(count, len(boxes))
    middles = boxes[np.linspace(0, len(boxes) - 1, count).astype(int)]
    nearest = np.zeros(len(boxes), np.int64)
    for _ in range(rounds):
        nearest = ((boxes[:, None] - middles) ** 2).sum(-1).argmin(1)
        middles = np.stack([boxes[nearest == k].mean(0) if (nearest == k).any() else middles[k] for k in range(count)])
    return middles, np.bincount(nearest, minlength=count) / len(boxes)


def baselines(train: DetectionDataset, test: DetectionDataset) -> Iterable[tuple[str, float]]:
    """mAP50 of a detector that finds in every image the mean boxes of training, as shares of its sides."""
    shares: dict[int, list[np.ndarray]] = {}
    for record in train.records:
        sample = train.read(record)
        for box, label in zip(sample["boxes"] / np.tile(sample["size"][::-1], 2), sample["labels"].tolist()):
            shares.setdefault(label, []).append(box)
    for count, name in ((1, "mean box"), (16, "16 mean boxes")):
        boxes, labels, scores = [], [], []
        for label, some in sorted(shares.items()):
            found, weight = mean_boxes(np.stack(some), count)
            boxes.append(found)
            labels += [label] * len(found)
            scores.append(weight * len(some))
        all_boxes, score = np.concatenate(boxes), np.concatenate(scores) / sum(map(len, shares.values()))
        samples = []
        for record in test.records:
            sample = test.read(record)
            found = dict(boxes=all_boxes * np.tile(sample["size"][::-1], 2), labels=np.array(labels), scores=score)
            samples.append(sample | dict(found=found))
        metric = CocoMetric()
        metric.process({}, samples)
        yield f"{name} of each class, mAP50", metric.compute_metrics(metric.results)["mAP50"]
