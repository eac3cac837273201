"""Simple baselines on recordings, without motion: logistic regression on statistics, in numpy.

A dataset is useful for testing a model of motion where these score low.
"""

from collections.abc import Iterable

import numpy as np

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.evaluation.simple import accuracies
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.transforms.controls import StillMoment

GRID = 16  # cells along each side of a picture


def amounts(events: Events) -> np.ndarray:
    """Return the log number of events and the share of positive ones (2,)."""
    return np.array([np.log1p(len(events)), events.p.mean() if len(events) else 0.5])


def places(events: Events) -> np.ndarray:
    """Return the amounts, and for each polarity the means and deviations of x and y (10,)."""
    features = [amounts(events)]
    for polarity in (0, 1):
        mask = events.p == polarity
        features += [[c[mask].mean(), c[mask].std()] if mask.any() else [0.0, 0.0] for c in (events.x, events.y)]
    return np.concatenate(features)


def picture(events: Events) -> np.ndarray:
    """Return the square root of the share of events in each cell of the sensor, by polarity (2 GRID^2,)."""
    column = events.x.astype(np.int64) * GRID // events.width
    row = events.y.astype(np.int64) * GRID // events.height
    cell = (events.p.astype(np.int64) * GRID + row) * GRID + column
    return np.sqrt(np.bincount(cell, minlength=2 * GRID**2) / max(1, len(events)))


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    still, names = StillMoment(), ("event count and polarity", "places of events", "picture of 50 ms", "picture of all")

    def describe(dataset: Dataset) -> list[np.ndarray]:
        rows = []
        for number, record in enumerate(dataset.records):
            sample = dataset.read(record)
            events, moment = sample["events"], still(sample, np.random.default_rng(number))["events"]
            rows.append([amounts(events), places(events), picture(moment), picture(events)])
        return [np.stack(column).astype(np.float32) for column in zip(*rows)]

    return accuracies(zip(names, describe(train), describe(test)), train.labels, test.labels)
