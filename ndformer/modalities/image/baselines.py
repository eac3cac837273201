"""What can be told from an image without looking at shapes: logistic regression on simple statistics, in numpy.

An image set is worth a transformer where these stay low.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from PIL import Image

from ndformer.framework.data import Dataset

SIDE = 32
PENALTIES = (1e-3, 1e-2, 1e-1)


def pixels(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """(N, 32, 32, 3) in 0..1 and the labels."""
    images = (dataset.read(record)["image"].convert("RGB") for record in dataset.records)
    small = [np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX)) for image in images]
    return np.stack(small).astype(np.float32) / 255, dataset.labels


def statistics(x: np.ndarray) -> np.ndarray:
    """Mean, deviation and a histogram of each channel."""
    cells = np.minimum((x * 16).astype(np.int64), 15)  # (N, 32, 32, 3)
    histogram = (cells[..., None] == np.arange(16)).mean((1, 2)).reshape(len(x), -1)
    return np.concatenate([x.mean((1, 2)), x.std((1, 2)), histogram], 1)


def layout(x: np.ndarray) -> np.ndarray:
    """Mean and deviation of colour in 4 x 4 cells."""
    cells = x.reshape(len(x), 4, SIDE // 4, 4, SIDE // 4, 3)
    return np.concatenate([cells.mean((2, 4)), cells.std((2, 4))], -1).reshape(len(x), -1)


FEATURES = {"colour statistics": statistics, "coarse layout": layout, "raw pixels": lambda x: x.reshape(len(x), -1)}


def logistic_regression(
    train: np.ndarray, labels: np.ndarray, test: np.ndarray, penalty: float, steps: int = 200
) -> np.ndarray:
    """Labels for `test`. Accelerated gradient descent on standardised features."""
    mean, std = train.mean(0), train.std(0) + 1e-6
    train, test = (np.column_stack([(x - mean) / std, np.ones(len(x))]).astype(np.float32) for x in (train, test))
    targets = np.eye(labels.max() + 1, dtype=np.float32)[labels]
    rough = np.random.default_rng(0).standard_normal(train.shape[1]).astype(np.float32)
    for _ in range(10):  # power iteration: the largest curvature sets the step
        rough = train.T @ (train @ (rough / np.linalg.norm(rough))) / len(train)
    step = 1 / (0.5 * np.linalg.norm(rough) + penalty)
    weights = ahead = np.zeros((train.shape[1], targets.shape[1]), np.float32)
    for t in range(steps):
        logits = train @ ahead
        shares = np.exp(logits - logits.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        new = ahead - step * (train.T @ (shares - targets) / len(train) + penalty * ahead)
        weights, ahead = new, new + t / (t + 3) * (new - weights)
    return (test @ weights).argmax(1)


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    """(features, test accuracy at the penalty that is best for it)."""
    (x, labels), (x_test, truth) = pixels(train), pixels(test)
    for name, describe in FEATURES.items():
        given, asked = describe(x), describe(x_test)
        yield name, max(float((logistic_regression(given, labels, asked, p) == truth).mean()) for p in PENALTIES)
    yield "most frequent class", float((truth == np.bincount(labels).argmax()).mean())
