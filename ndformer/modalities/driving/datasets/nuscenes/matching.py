"""Which prediction takes which object: the surest first, the nearest free object, by the distance of centres."""

from collections.abc import Iterator

import numpy as np

from ndformer.modalities.driving.datasets.nuscenes.rules import Boxes


def surest_first(score: np.ndarray) -> np.ndarray:
    """(D,) numbers; of equal scores the last one is first."""
    return np.lexsort((np.arange(len(score)), score))[::-1]


def match(truth: Boxes, found: Boxes, thresholds: tuple[float, ...]) -> np.ndarray:
    """(thresholds, D) which object each prediction of a class takes, -1 for none. `found` is the surest first.

    A prediction looks at the nearest object that nobody took; whether that is near enough is asked then. As distances
    of those that are too far change nothing, only near pairs are looked at.
    """
    near: list[tuple[int, np.ndarray, np.ndarray]] = sorted(_pairs(truth, found, max(thresholds)), key=lambda p: p[0])
    taken = np.full((len(thresholds), len(found)), -1)
    for row, threshold in zip(taken, thresholds):
        free = np.ones(len(truth), bool)
        for i, objects, distances in near:
            left = np.flatnonzero(free[objects] & (distances < threshold))
            if len(left):
                best = objects[left[distances[left].argmin()]]  # the first of the nearest
                row[i], free[best] = best, False
    return taken


def _pairs(truth: Boxes, found: Boxes, reach: float) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Each prediction with objects of its sample near it: its number, theirs in order, their distances."""
    by_truth, by_found = (np.argsort(boxes.sample, kind="stable") for boxes in (truth, found))
    samples = np.intersect1d(truth.sample, found.sample)
    bounds = [
        (np.searchsorted(boxes.sample[order], samples, "left"), np.searchsorted(boxes.sample[order], samples, "right"))
        for boxes, order in ((truth, by_truth), (found, by_found))
    ]
    for a, b, c, d in zip(*bounds[0], *bounds[1]):
        objects, own = by_truth[a:b], by_found[c:d]
        step = found.centre[own, None, :2] - truth.centre[None, objects, :2]
        distance = np.sqrt((step**2).sum(-1))
        for i, row in zip(own.tolist(), distance):
            close = np.flatnonzero(row < reach)
            if len(close):
                yield i, objects[close], row[close]
