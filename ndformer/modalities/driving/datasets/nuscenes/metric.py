"""nuScenes' metric (mAP by center distance, five errors, NDS), and a part of it for boxes of any classes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import METRICS
from ndformer.modalities.driving.datasets.nuscenes import average
from ndformer.modalities.driving.datasets.nuscenes.rules import (
    MAX_BOXES,
    NONE,
    Boxes,
    Racks,
    counted,
    likely_attributes,
    numbered,
    together,
)
from ndformer.modalities.driving.datasets.nuscenes.submission import META, write_submission
from ndformer.modalities.driving.formats.poses import about_z, headings, moved
from ndformer.moved import old_names


@METRICS.register_module()
class CenterDistance(Metric):
    """mAP by center distance over the classes that occur, and mATE, mASE and mAOE of true positives.

    These are the parts of nuScenes' metric that apply to any classes; 0 and 1 where nothing is found. Answers are
    Boxes3D of samples with `token`, `truth` and `racks` (None for unpublished annotations: then nothing is computed),
    `to_global` and `ego`.
    """

    former_name = "CentreDistance"

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
            boxes = on_map(answer, np.asarray(about["to_global"], np.float64), self.attributes)
            self.results.append((about["token"], about["truth"], about["racks"], np.asarray(about["ego"]), boxes))

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        results = sorted(results, key=lambda result: result[0])
        self.tokens = [result[0] for result in results]
        if len(set(self.tokens)) < len(results):
            raise DataError("a sample was evaluated twice: each must occur once in a set")
        self.predictions = together(Boxes, [numbered(result[4], i) for i, result in enumerate(results)])
        self.classes: list[average.Curves] = []
        if any(result[1] is None for result in results):
            return {}
        truth = together(Boxes, [numbered(result[1], i) for i, result in enumerate(results)])
        racks = together(Racks, [numbered(result[2], i) for i, result in enumerate(results)])
        ego = np.stack([result[3] for result in results]) if results else np.zeros((0, 3))
        self.classes = self.measured(truth, ego, racks)
        return self.summary(truth)

    def attributes(self, label: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """Return the attributes (D,) of predictions without any."""
        return np.full(len(label), NONE)

    def measured(self, truth: Boxes, ego: np.ndarray, racks: Racks) -> list[average.Curves]:
        count = int(np.concatenate([truth.label, self.predictions.label]).max(initial=-1)) + 1
        return average.evaluate(truth, self.predictions, [average.Kind("", ("AVE", "AAE"))] * count)

    def summary(self, truth: Boxes) -> dict[str, float]:
        present = [self.classes[label] for label in np.unique(truth.label)]
        if not present:
            return dict(mAP=0.0, mATE=1.0, mASE=1.0, mAOE=1.0)
        values = dict(mAP=float(np.mean([c.average for c in present])))
        return values | {f"m{name}": float(np.mean([c.errors[name] for c in present])) for name in average.ERRORS[:3]}

    def views(self, folder: Path | None, classes: Sequence[str]) -> str | None:
        return table(self.classes, classes) if self.classes else None


@METRICS.register_module()
class NuScenes(CenterDistance):
    """mAP, NDS and mATE, mASE, mAOE, mAVE, mAAE of nuScenes' ten classes, as in the devkit; 0 where nothing is found.

    Missing attributes of predictions are guessed from speeds.
    """

    main = "NDS"

    def attributes(self, label: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        return likely_attributes(label, velocity)

    def measured(self, truth: Boxes, ego: np.ndarray, racks: Racks) -> list[average.Curves]:
        return measured(truth, self.predictions, ego, racks)

    def summary(self, truth: Boxes) -> dict[str, float]:
        return average.summary(self.classes)

    def export(self, path: Path, categories: Sequence[Any]) -> bool:
        """Write the json for nuScenes' server and ndformer eval nuscenes."""
        write_submission(path, self.predictions, self.tokens, META)
        return True


def measured(truth: Boxes, predictions: Boxes, ego: np.ndarray, racks: Racks) -> list[average.Curves]:
    """Return the curves of each class for the boxes that count."""
    return average.evaluate(truth[counted(truth, ego, racks)], predictions[counted(predictions, ego, racks)])


def on_map(answer: Any, to_global: np.ndarray, attributes: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Boxes:
    """Return the highest-scored MAX_BOXES boxes of an answer, moved from the LiDAR's frame to the map's."""
    best = np.sort(np.argsort(-np.asarray(answer.scores), kind="stable")[:MAX_BOXES])
    boxes, labels, scores = (
        np.asarray(part)[best].astype(kind)
        for part, kind in ((answer.boxes, np.float64), (answer.labels, np.int64), (answer.scores, np.float64))
    )
    level = np.column_stack([boxes[:, 7:9], np.zeros(len(boxes))])
    velocity = (level @ to_global[:3, :3].T)[:, :2]
    predicted = None if answer.attributes is None else np.asarray(answer.attributes)[best].astype(np.int64)
    return Boxes(
        np.zeros(len(boxes), np.int64),
        labels,
        moved(boxes[:, :3], to_global),
        boxes[:, 3:6],
        headings(to_global[:3, :3] @ about_z(boxes[:, 6])),
        velocity,
        attributes(labels, velocity) if predicted is None else predicted,
        scores,
        np.zeros(0, np.int64),
    )


def table(classes: list[average.Curves], names: Sequence[str]) -> str:
    """Format the scores as text, one line for each class."""
    rows: Mapping[str, Mapping[str, float | None]] = average.class_numbers(classes, names)
    heads = list(next(iter(rows.values())))
    lines = [f"{'':22}" + "".join(f"{head:>7}" for head in heads)]
    for name, row in rows.items():
        cells = ("-" if value is None else f"{value:.3f}" for value in row.values())
        lines.append(f"{name:22}" + "".join(f"{cell:>7}" for cell in cells))
    return "\n".join(lines)


__getattr__ = old_names(__name__, {"CentreDistance": "CenterDistance"})
