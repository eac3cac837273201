"""Simple baselines on images, without shapes: logistic regression on statistics, in numpy.

A dataset is useful for testing a transformer where these score low.
"""

from collections.abc import Iterable

import numpy as np
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.evaluation.simple import accuracies

SIDE = 32


def pixels(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the images (N, 32, 32, 3) in 0..1, and the labels."""
    images = (dataset.read(record)["image"].convert("RGB") for record in dataset.records)
    small = [np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX)) for image in images]
    return np.stack(small).astype(np.float32) / 255, dataset.labels


def statistics(x: np.ndarray) -> np.ndarray:
    """Return mean, deviation and a histogram of each channel."""
    cells = np.minimum((x * 16).astype(np.int64), 15)  # (N, 32, 32, 3)
    histogram = (cells[..., None] == np.arange(16)).mean((1, 2)).reshape(len(x), -1)
    return np.concatenate([x.mean((1, 2)), x.std((1, 2)), histogram], 1)


def layout(x: np.ndarray) -> np.ndarray:
    """Return mean and deviation of the color in 4 x 4 cells."""
    cells = x.reshape(len(x), 4, SIDE // 4, 4, SIDE // 4, 3)
    return np.concatenate([cells.mean((2, 4)), cells.std((2, 4))], -1).reshape(len(x), -1)


FEATURES = {"color statistics": statistics, "coarse layout": layout, "raw pixels": lambda x: x.reshape(len(x), -1)}


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    (x, labels), (x_test, truth) = pixels(train), pixels(test)
    described = ((name, describe(x), describe(x_test)) for name, describe in FEATURES.items())
    return accuracies(described, labels, truth)
