"""nuScenes' scores: average precision over four distances, five errors of true positives, and NDS."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ndformer.modalities.driving.datasets.nuscenes.rules import NONE, Boxes
from ndformer.modalities.driving.formats.classes import CLASSES

DISTANCES = (0.5, 1.0, 2.0, 4.0)  # meters between centers, below which a prediction is correct
ERROR_DISTANCE = DISTANCES.index(2.0)  # errors are computed for predictions that are correct at this distance
RECALLS = np.linspace(0, 1, 101)
FIRST = 11  # recalls up to 0.1 are ignored
MIN_PRECISION, WEIGHT = 0.1, 5  # lower precision counts as 0; weight of mAP in NDS, where each error has 1
ERRORS = ("ATE", "ASE", "AOE", "AVE", "AAE")  # translation, scale, orientation, velocity, attribute


class Kind(NamedTuple):
    """A class, and which of its errors are evaluated."""

    name: str
    without: tuple[str, ...] = ()  # errors that are not evaluated
    period: float = 2 * np.pi  # of its yaw


SPECIAL_KINDS = dict(
    traffic_cone=Kind("traffic_cone", ("AOE", "AVE", "AAE")),
    barrier=Kind("barrier", ("AVE", "AAE"), np.pi),  # front and back are the same
)
KINDS = [SPECIAL_KINDS.get(name, Kind(name)) for name in CLASSES]


@dataclass(frozen=True)
class Curves:
    """Precisions (4, 101) at recalls for one class, and its errors, NaN where not evaluated."""

    precision: np.ndarray
    errors: dict[str, float]

    @property
    def average(self) -> np.ndarray:
        """AP at each distance (4,)."""
        return np.maximum(self.precision[:, FIRST:] - MIN_PRECISION, 0).mean(1) / (1 - MIN_PRECISION)


def evaluate(truth: Boxes, predictions: Boxes, kinds: Sequence[Kind] = KINDS) -> list[Curves]:
    """Return the curves of each class; all boxes given are evaluated."""
    return [
        _class_curves(kind, truth[truth.label == i], predictions[predictions.label == i])
        for i, kind in enumerate(kinds)
    ]


def summary(classes: list[Curves]) -> dict[str, float]:
    """Return mAP, NDS and the mean errors by name."""
    average = float(np.mean([curves.average for curves in classes]))
    errors = {f"m{name}": float(np.nanmean([curves.errors[name] for curves in classes])) for name in ERRORS}
    score = WEIGHT * average + sum(max(0.0, 1 - error) for error in errors.values())
    return dict(mAP=average, NDS=score / (WEIGHT + len(ERRORS))) | errors


def class_numbers(classes: list[Curves], names: Sequence[str] = CLASSES) -> dict[str, dict[str, float | None]]:
    """Return AP, AP at each distance and the errors by class, None where not evaluated."""
    rows = {}
    for name, curves in zip(names, classes):
        row: dict[str, float | None] = dict(AP=float(curves.average.mean()))
        row |= {f"AP{distance:g}": float(value) for distance, value in zip(DISTANCES, curves.average)}
        rows[name] = row | {error: None if np.isnan(value) else value for error, value in curves.errors.items()}
    return rows


def _class_curves(kind: Kind, truth: Boxes, predictions: Boxes) -> Curves:
    # by score, highest first; among equal scores the last comes first
    predictions = predictions[np.lexsort((np.arange(len(predictions)), predictions.score))[::-1]]
    matched = _match(truth, predictions, DISTANCES)
    precision = np.stack([_precision(row >= 0, len(truth)) for row in matched])
    correct = matched[ERROR_DISTANCE] >= 0
    recall = np.cumsum(correct) / max(1, len(truth))
    confidence = _interpolate(recall, predictions.score) if correct.any() else np.zeros(101)
    values = _errors(kind.period, truth[matched[ERROR_DISTANCE][correct]], predictions[correct])
    errors = {error: _mean_error(v, predictions.score[correct], confidence) for error, v in values.items()}
    return Curves(precision, errors | dict.fromkeys(kind.without, np.nan))


def _precision(correct: np.ndarray, objects: int) -> np.ndarray:
    if not correct.any():
        return np.zeros(len(RECALLS))
    hits = np.cumsum(correct)
    return _interpolate(hits / objects, hits / np.arange(1, len(correct) + 1))


def _interpolate(recall: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.interp(RECALLS, recall, values, right=0)


def _errors(period: float, truth: Boxes, predictions: Boxes) -> dict[str, np.ndarray]:
    """Return the errors (M,) of matched pairs, sorted by score."""
    common = np.minimum(truth.size, predictions.size).prod(1)
    union = truth.size.prod(1) + predictions.size.prod(1) - common
    turn = (truth.yaw - predictions.yaw + period / 2) % period - period / 2
    wrong = (truth.attribute != predictions.attribute).astype(np.float64)
    return dict(
        ATE=np.sqrt(((predictions.center - truth.center)[:, :2] ** 2).sum(1)),
        ASE=1 - common / union,
        AOE=np.abs(turn),
        AVE=np.sqrt(((predictions.velocity - truth.velocity) ** 2).sum(1)),
        AAE=np.where(truth.attribute == NONE, np.nan, wrong),
    )


def _mean_error(errors: np.ndarray, scores: np.ndarray, confidence: np.ndarray) -> float:
    """Average running means of an error over the recalls that are reached, from FIRST on; 1 where none is reached."""
    last = int(np.flatnonzero(confidence).max(initial=0))
    if last < FIRST:
        return 1.0
    means = np.interp(confidence[::-1], scores[::-1], _running_mean(errors)[::-1])[::-1]
    return float(means[FIRST : last + 1].mean())


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Return the running mean of values that are not NaN: 0 before the first (as in the devkit), 1 without any."""
    is_valid = ~np.isnan(values)
    if not is_valid.any():
        return np.ones(len(values))
    count = np.cumsum(is_valid)
    return np.divide(np.nancumsum(values), count, out=np.zeros(len(values)), where=count != 0)


# ---------------------------------------------------------------------------------------------------------- matching


def _match(truth: Boxes, predictions: Boxes, thresholds: tuple[float, ...]) -> np.ndarray:
    """Return the object that each prediction of a class matches, (thresholds, D), -1 for none.

    `predictions` are sorted by score. A prediction matches the nearest free object if it is within the threshold. Pairs
    beyond the largest threshold cannot match, so only nearer pairs are computed.
    """
    pairs = sorted(_pairs(truth, predictions, max(thresholds)), key=lambda pair: pair[0])
    matched = np.full((len(thresholds), len(predictions)), -1)
    for row, threshold in zip(matched, thresholds):
        free = np.ones(len(truth), bool)
        for i, objects, distances in pairs:
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
        step = predictions.center[numbers, None, :2] - truth.center[None, objects, :2]
        distance = np.sqrt((step**2).sum(-1))
        for i, row in zip(numbers.tolist(), distance):
            close = np.flatnonzero(row < max_distance)
            if len(close):
                yield i, objects[close], row[close]
