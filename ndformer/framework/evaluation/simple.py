"""Baselines from simple statistics: logistic regression and mean boxes."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

PENALTIES = (1e-3, 1e-2, 1e-1)


def logistic_regression(train: np.ndarray, labels: np.ndarray, test: np.ndarray, penalty: float) -> np.ndarray:
    """Return predicted labels for `test`, from accelerated gradient descent on standardized features."""
    mean, std = train.mean(0), train.std(0) + 1e-6
    train, test = (np.column_stack([(x - mean) / std, np.ones(len(x))]).astype(np.float32) for x in (train, test))
    targets = np.eye(labels.max() + 1, dtype=np.float32)[labels]
    rough = np.random.default_rng(0).standard_normal(train.shape[1]).astype(np.float32)
    for _ in range(10):  # power iteration: the largest curvature sets the step
        rough = train.T @ (train @ (rough / np.linalg.norm(rough))) / len(train)
    step = 1 / (0.5 * np.linalg.norm(rough) + penalty)
    weights = ahead = np.zeros((train.shape[1], targets.shape[1]), np.float32)
    for t in range(200):
        logits = train @ ahead
        shares = np.exp(logits - logits.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        new = ahead - step * (train.T @ (shares - targets) / len(train) + penalty * ahead)
        weights, ahead = new, new + t / (t + 3) * (new - weights)
    return (test @ weights).argmax(1)


def accuracies(
    described: Iterable[tuple[str, np.ndarray, np.ndarray]], labels: np.ndarray, truth: np.ndarray
) -> Iterator[tuple[str, float]]:
    """Yield the test accuracy of logistic regression on each (name, train, test) features, at the best penalty."""
    for name, train, test in described:
        predictions = (logistic_regression(train, labels, test, penalty) for penalty in PENALTIES)
        yield name, max(float((predicted == truth).mean()) for predicted in predictions)
    yield "most frequent class", float((truth == np.bincount(labels).argmax()).mean())


KINDS = (1, "mean box of each class, mAP50"), (16, "16 mean boxes of each class, mAP50")


def mean_boxes(boxes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k-means of boxes (K, 4) and the share of boxes in each cluster."""
    count = min(count, len(boxes))
    middles = boxes[np.linspace(0, len(boxes) - 1, count).astype(int)]
    nearest = np.zeros(len(boxes), np.int64)
    for _ in range(20):
        nearest = ((boxes[:, None] - middles) ** 2).sum(-1).argmin(1)
        middles = np.stack([boxes[nearest == k].mean(0) if (nearest == k).any() else middles[k] for k in range(count)])
    return middles, np.bincount(nearest, minlength=count) / len(boxes)


def mean_detections(images: Iterable[tuple[np.ndarray, np.ndarray]], count: int) -> dict[str, Any]:
    """Return the mean boxes of each class as detections scored by frequency, from (boxes, labels) of each image."""
    boxes, labels = (np.concatenate(parts) for parts in zip(*images))
    clusters = [(label, *mean_boxes(boxes[labels == label], count)) for label in np.unique(labels).tolist()]
    return dict(
        boxes=np.concatenate([means for _, means, _ in clusters]),
        labels=np.repeat([label for label, *_ in clusters], [len(means) for _, means, _ in clusters]),
        scores=np.concatenate([share * (labels == label).mean() for label, _, share in clusters]),
    )
