"""nuScenes' metric, mAP by the distance of centres, five errors and NDS; and what of it is of any boxes in space."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import METRICS
from ndformer.modalities.driving.datasets.nuscenes import average
from ndformer.modalities.driving.datasets.nuscenes.rules import MOST, NONE, Boxes, Racks, counted, likely_attributes
from ndformer.modalities.driving.datasets.nuscenes.submission import META, write_submission
from ndformer.modalities.driving.formats.poses import about_z, headings, moved


@METRICS.register_module()
class CentreDistance(Metric):
    """mAP by the distance of centres over the classes that are there, and mATE, mASE and mAOE of what is right: what
    nuScenes' metric asks of any boxes, whatever their classes; 0 and 1 where nothing is found.

    Of Boxes3D, of samples that know how they lie in the map: `token`, `truth` and `racks`, which are None where nobody
    tells (then nothing is measured), `to_global` and `ego`.
    """

    main, better, unit = "mAP", "higher", "share"
    quantities = dict(
        mATE=Quantity("lower", "m", 3),
        mASE=Quantity("lower", "", 3),
        mAOE=Quantity("lower", "rad", 3),
        mAVE=Quantity("lower", "m/s", 3),
        mAAE=Quantity("lower", "", 3),
    )

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            about = answer.sample
            found = on_map(answer, np.asarray(about["to_global"], np.float64), self.attributes)
            self.results.append((about["token"], about["truth"], about["racks"], np.asarray(about["ego"]), found))

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        results = sorted(results, key=lambda one: one[0])
        self.tokens = [one[0] for one in results]
        if len(set(self.tokens)) < len(results):
            raise DataError("a sample was evaluated twice: each stands once in a set")
        self.found = Boxes.together([_numbered(one[4], i) for i, one in enumerate(results)])
        self.classes: list[average.Curves] = []
        if any(one[1] is None for one in results):
            return {}
        truth = Boxes.together([_numbered(one[1], i) for i, one in enumerate(results)])
        racks = [(_numbered_racks(one[2], i)) for i, one in enumerate(results)]
        ego = np.stack([one[3] for one in results]) if results else np.zeros((0, 3))
        self.classes = self.measured(truth, ego, _together(racks))
        return self.summary(truth)

    def attributes(self, label: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """(D,) of predictions that say none."""
        return np.full(len(label), NONE)

    def measured(self, truth: Boxes, ego: np.ndarray, racks: Racks) -> list[average.Curves]:
        count = int(np.concatenate([truth.label, self.found.label]).max(initial=-1)) + 1
        return average.evaluate(truth, self.found, [average.Kind("", ("AVE", "AAE"))] * count)

    def summary(self, truth: Boxes) -> dict[str, float]:
        there = [self.classes[label] for label in np.unique(truth.label)]
        if not there:
            return dict(mAP=0.0, mATE=1.0, mASE=1.0, mAOE=1.0)
        values = dict(mAP=float(np.mean([one.average for one in there])))
        return values | {f"m{name}": float(np.mean([one.errors[name] for one in there])) for name in average.ERRORS[:3]}

    def views(self, folder: Path | None, classes: Sequence[str]) -> str | None:
        return table(self.classes, classes) if self.classes else None


@METRICS.register_module()
class NuScenes(CentreDistance):
    """mAP, NDS and mATE, mASE, mAOE, mAVE, mAAE, as the devkit has them, of nuScenes' ten classes; 0 where nothing is
    found. Attributes that an answer does not say are guessed from speeds."""

    main = "NDS"

    def attributes(self, label: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        return likely_attributes(label, velocity)

    def measured(self, truth: Boxes, ego: np.ndarray, racks: Racks) -> list[average.Curves]:
        return measured(truth, self.found, ego, racks)

    def summary(self, truth: Boxes) -> dict[str, float]:
        return average.summary(self.classes)

    def export(self, path: Path, categories: Sequence[Any]) -> bool:
        """The json that nuScenes' server and tools/eval.py nuscenes take."""
        write_submission(path, self.found, self.tokens, META)
        return True


def measured(truth: Boxes, found: Boxes, ego: np.ndarray, racks: Racks) -> list[average.Curves]:
    """For each class, of what counts."""
    return average.evaluate(truth[counted(truth, ego, racks)], found[counted(found, ego, racks)])


def on_map(answer: Any, to_global: np.ndarray, attributes: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Boxes:
    """What an answer says in the LiDAR's frame, the surest MOST of it, in that of the map, to which (4, 4) leads."""
    best = np.sort(np.argsort(-np.asarray(answer.scores), kind="stable")[:MOST])
    boxes, labels, scores = (
        np.asarray(part)[best].astype(kind)
        for part, kind in ((answer.boxes, np.float64), (answer.labels, np.int64), (answer.scores, np.float64))
    )
    level = np.column_stack([boxes[:, 7:9], np.zeros(len(boxes))])
    velocity = (level @ to_global[:3, :3].T)[:, :2]
    told = None if answer.attributes is None else np.asarray(answer.attributes)[best].astype(np.int64)
    return Boxes(
        np.zeros(len(boxes), np.int64),
        labels,
        moved(boxes[:, :3], to_global),
        boxes[:, 3:6],
        headings(to_global[:3, :3] @ about_z(boxes[:, 6])),
        velocity,
        attributes(labels, velocity) if told is None else told,
        scores,
        np.zeros(0, np.int64),
    )


def table(classes: list[average.Curves], names: Sequence[str]) -> str:
    """Text: a line a class."""
    rows: Mapping[str, Mapping[str, float | None]] = average.class_numbers(classes, names)
    heads = list(next(iter(rows.values())))
    lines = [f"{'':22}" + "".join(f"{head:>7}" for head in heads)]
    for name, row in rows.items():
        cells = ("-" if value is None else f"{value:.3f}" for value in row.values())
        lines.append(f"{name:22}" + "".join(f"{cell:>7}" for cell in cells))
    return "\n".join(lines)


def _numbered(boxes: Boxes, sample: int) -> Boxes:
    return Boxes(**boxes.parts | dict(sample=np.full(len(boxes), sample)))


def _numbered_racks(racks: Racks, sample: int) -> Racks:
    return Racks(np.full(len(racks.size), sample), racks.centre, racks.size, racks.rotation)


def _together(racks: Sequence[Racks]) -> Racks:
    several = [Racks.none(), *racks]
    return Racks(
        *(np.concatenate([getattr(one, part) for one in several]) for part in ("sample", "centre", "size", "rotation"))
    )
