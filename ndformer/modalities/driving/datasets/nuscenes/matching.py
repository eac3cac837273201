"""Matching of predictions to objects: by descending score, each to the nearest free object by center distance."""

from collections.abc import Iterator

import numpy as np

from ndformer.modalities.driving.datasets.nuscenes.rules import Boxes


def surest_first(score: np.ndarray) -> np.ndarray:
    """Return the order of scores (D,), highest first; among equal scores the last comes first."""
    return np.lexsort((np.arange(len(score)), score))[::-1]


def match(truth: Boxes, predictions: Boxes, thresholds: tuple[float, ...]) -> np.ndarray:
    """Return the object that each prediction of a class matches, (thresholds, D), -1 for none.

    `predictions` are sorted by score. A prediction matches the nearest free object if it is within the threshold. Pairs
    beyond the largest threshold cannot match, so only nearer pairs are computed.
    """
    near = sorted(_pairs(truth, predictions, max(thresholds)), key=lambda pair: pair[0])
    matched = np.full((len(thresholds), len(predictions)), -1)
    for row, threshold in zip(matched, thresholds):
        free = np.ones(len(truth), bool)
        for i, objects, distances in near:
            left = np.flatnonzero(free[objects] & (distances < threshold))
            if len(left):
                best = objects[left[distances[left].argmin()]]  # the first of equal distances
                row[i], free[best] = best, False
    return matched


def _pairs(truth: Boxes, predictions: Boxes, max_distance: float) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield each prediction with near objects of its sample: its index, theirs in order, and the distances."""
    by_truth, by_prediction = (np.argsort(boxes.sample, kind="stable") for boxes in (truth, predictions))
    samples = np.intersect1d(truth.sample, predictions.sample)
    bounds = [
        (np.searchsorted(boxes.sample[order], samples, "left"), np.searchsorted(boxes.sample[order], samples, "right"))
        for boxes, order in ((truth, by_truth), (predictions, by_prediction))
    ]
    for a, b, c, d in zip(*bounds[0], *bounds[1]):
        objects, numbers = by_truth[a:b], by_prediction[c:d]
        step = predictions.centre[numbers, None, :2] - truth.centre[None, objects, :2]
        distance = np.sqrt((step**2).sum(-1))
        for i, row in zip(numbers.tolist(), distance):
            close = np.flatnonzero(row < max_distance)
            if len(close):
                yield i, objects[close], row[close]
