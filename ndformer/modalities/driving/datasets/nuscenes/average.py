"""nuScenes' numbers: average precision over four distances, the five errors of what was found, NDS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ndformer.modalities.driving.datasets.nuscenes.matching import match, surest_first
from ndformer.modalities.driving.datasets.nuscenes.rules import NONE, Boxes
from ndformer.modalities.driving.formats.classes import CLASSES

DISTANCES = (0.5, 1.0, 2.0, 4.0)  # metres between centres, below which a prediction is right
OF_ERRORS = DISTANCES.index(2.0)  # errors are of what is right at this one
RECALLS = np.linspace(0, 1, 101)
FIRST = 11  # of the recalls that count, beyond 0.1
LEAST_PRECISION, WEIGHT = 0.1, 5  # what is below is 0; of mAP in NDS, where each error has 1
ERRORS = ("ATE", "ASE", "AOE", "AVE", "AAE")  # translation, scale, orientation, velocity, attribute


class Kind(NamedTuple):
    """A class, and what is asked of it."""

    name: str
    without: tuple[str, ...] = ()  # errors that it does not have
    period: float = 2 * np.pi  # of its yaw


OTHERS = dict(
    traffic_cone=Kind("traffic_cone", ("AOE", "AVE", "AAE")),
    barrier=Kind("barrier", ("AVE", "AAE"), np.pi),  # both sides of one look alike
)
KINDS = [OTHERS.get(name, Kind(name)) for name in CLASSES]


@dataclass(frozen=True)
class Curves:
    """Of one class: (4, 101) precisions at recalls, and the errors, NaN of those that it does not have."""

    precision: np.ndarray
    errors: dict[str, float]

    @property
    def average(self) -> np.ndarray:
        """(4,) AP at each distance."""
        return np.maximum(self.precision[:, FIRST:] - LEAST_PRECISION, 0).mean(1) / (1 - LEAST_PRECISION)


def evaluate(truth: Boxes, found: Boxes, kinds: Sequence[Kind] = KINDS) -> list[Curves]:
    """For each class, of boxes that count."""
    return [_of_class(kind, truth[truth.label == i], found[found.label == i]) for i, kind in enumerate(kinds)]


def summary(classes: list[Curves]) -> dict[str, float]:
    """mAP, NDS and the mean errors, under their names."""
    average = float(np.mean([one.average for one in classes]))
    errors = {f"m{name}": float(np.nanmean([one.errors[name] for one in classes])) for name in ERRORS}
    score = WEIGHT * average + sum(max(0.0, 1 - error) for error in errors.values())
    return dict(mAP=average, NDS=score / (WEIGHT + len(ERRORS))) | errors


def class_numbers(classes: list[Curves], names: Sequence[str] = CLASSES) -> dict[str, dict[str, float | None]]:
    """By class: AP, AP at each distance, and the errors; None for those that it does not have."""
    rows = {}
    for name, one in zip(names, classes):
        row: dict[str, float | None] = dict(AP=float(one.average.mean()))
        row |= {f"AP{distance:g}": float(value) for distance, value in zip(DISTANCES, one.average)}
        rows[name] = row | {error: None if np.isnan(value) else value for error, value in one.errors.items()}
    return rows


def _of_class(kind: Kind, truth: Boxes, found: Boxes) -> Curves:
    found = found[surest_first(found.score)]
    taken = match(truth, found, DISTANCES)
    precision = np.stack([_precision(row >= 0, len(truth)) for row in taken])
    right = taken[OF_ERRORS] >= 0
    confidence = _at_recalls(np.cumsum(right) / max(1, len(truth)), found.score) if right.any() else np.zeros(101)
    own = _errors(kind.period, truth[taken[OF_ERRORS][right]], found[right])
    errors = {error: _mean_error(values, found.score[right], confidence) for error, values in own.items()}
    return Curves(precision, errors | dict.fromkeys(kind.without, np.nan))


def _precision(right: np.ndarray, objects: int) -> np.ndarray:
    """(101,)"""
    if not right.any():
        return np.zeros(len(RECALLS))
    hits = np.cumsum(right)
    return _at_recalls(hits / objects, hits / np.arange(1, len(right) + 1))


def _at_recalls(recall: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.interp(RECALLS, recall, values, right=0)


def _errors(period: float, truth: Boxes, found: Boxes) -> dict[str, np.ndarray]:
    """(M,) of pairs that belong together, the surest first."""
    least = np.minimum(truth.size, found.size).prod(1)
    either = truth.size.prod(1) + found.size.prod(1) - least
    turn = (truth.yaw - found.yaw + period / 2) % period - period / 2
    wrong = (truth.attribute != found.attribute).astype(np.float64)
    return dict(
        ATE=np.sqrt(((found.centre - truth.centre)[:, :2] ** 2).sum(1)),
        ASE=1 - least / either,
        AOE=np.abs(turn),
        AVE=np.sqrt(((found.velocity - truth.velocity) ** 2).sum(1)),
        AAE=np.where(truth.attribute == NONE, np.nan, wrong),
    )


def _mean_error(errors: np.ndarray, scores: np.ndarray, confidence: np.ndarray) -> float:
    """Over the recalls from the first that counts to the last that is reached, of running means; 1 where none is."""
    last = int(np.flatnonzero(confidence).max(initial=0))
    if last < FIRST:
        return 1.0
    at = np.interp(confidence[::-1], scores[::-1], _running_mean(errors)[::-1])[::-1]
    return float(at[FIRST : last + 1].mean())


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Of what is known so far: 0 before anything is, as the devkit has it, and 1 where nothing ever is."""
    known = ~np.isnan(values)
    if not known.any():
        return np.ones(len(values))
    count = np.cumsum(known)
    return np.divide(np.nancumsum(values), count, out=np.zeros(len(values)), where=count != 0)
