"""3-D boxes with a class, a score and a velocity, drawn from above and in each camera."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework.answers.objects import Objects, Verdict
from ndformer.framework.pictures.cards import INK, RIGHT, WRONG, class_colors, resize_to_fit
from ndformer.framework.registry import ANSWERS
from ndformer.modalities.driving.pictures.solids import Solid, draw

MAX_DISTANCE_M = 2.0  # between the centers of a prediction and the object it matches
MISSED, MATCHED = (60, 110, 220), (160, 160, 160)  # RGB of true boxes without and with a matching prediction


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Boxes3D(Objects):
    """Detected 3-D boxes, best first, in the coordinate frame of the model's input.

    A box is x, y, z of its center, width, length, height, yaw, vx, vy. The sample has the true `boxes` and `classes`,
    and `views` and `windows`, the projections from space into its picture.
    """

    metric = "NuScenes"
    columns = ("path", "class", "score", "x", "y", "z", "width", "length", "height", "yaw", "vx", "vy")
    legend = "file, boxes with class, score and center (x, y, z)"
    tile = 512

    digits = 3

    attributes: Any = None  # (D,) nuScenes attributes; None: derived from speed

    def where(self, box: Sequence[float]) -> str:
        return f"{box[0]:.1f}, {box[1]:.1f}, {box[2]:.1f} m"

    def compared(self, min_score: float) -> Verdict:
        """Match predictions, best first, with the nearest unmatched object of their class within MAX_DISTANCE_M."""
        chosen = np.flatnonzero(np.asarray(self.scores) >= min_score)
        if "boxes" not in self.sample:
            return Verdict(chosen, np.zeros(len(chosen), bool), chosen[:0], None)
        centers, labels = np.asarray(self.boxes)[chosen, :2], np.asarray(self.labels)[chosen]
        objects, classes = np.asarray(self.sample["boxes"])[:, :2], np.asarray(self.sample["classes"])
        right, matched = np.zeros(len(chosen), bool), np.zeros(len(objects), bool)
        for i in range(len(chosen)):
            free = np.flatnonzero(~matched & (classes == labels[i]))
            distance = np.linalg.norm(objects[free] - centers[i], axis=1)
            if len(free) and distance.min() < MAX_DISTANCE_M:
                right[i] = matched[free[distance.argmin()]] = True
        return Verdict(chosen, right, np.flatnonzero(~matched), len(objects))

    def draw(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        return draw(pixels, list(self._solids(self.compared(min_score))), self.sample)

    def _solids(self, verdict: Verdict) -> Iterator[Solid]:
        """Yield the true boxes, then the predicted ones, colored by right or wrong if the truth is known."""
        known = verdict.object_count is not None
        for i, box in enumerate(np.asarray(self.sample["boxes"]) if known else ()):
            yield Solid(box, MISSED if i in verdict.missed else MATCHED)
        for box, right in zip(np.asarray(self.boxes)[verdict.indices], verdict.right):
            yield Solid(box, INK if not known else RIGHT if right else WRONG)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        colors, labels = class_colors(len(classes)).tolist(), np.asarray(truth["classes"]).tolist()
        solids = [Solid(box, tuple(colors[label])) for box, label in zip(np.asarray(truth["boxes"]), labels)]
        return resize_to_fit(np.asarray(draw(pixels, solids, truth)), *size)
