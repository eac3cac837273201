"""3-D boxes with a class, a score and a velocity, drawn from above and in each camera."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework.answers.objects import Objects
from ndformer.framework.pictures.cards import INK, RIGHT, WRONG, card, class_colors, resize_to_fit
from ndformer.framework.pictures.solids import Solid, draw
from ndformer.framework.registry import ANSWERS

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

    def mistakes(self, min_score: float) -> float:
        match = self.compared(min_score)
        return 0.0 if match is None else float((~match[0]).sum() + (~match[1]).sum())

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        match, count = self.compared(min_score), int((np.asarray(self.scores) >= min_score).sum())
        if match is None:
            return f"{count} found"
        right, matched = match
        wrong = int((~right).sum())
        return f"{int(matched.sum())} of {len(matched)} found" + (f", {wrong} wrong" if wrong else "")

    def compared(self, min_score: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Return which predictions above the score are right and which objects are matched, or None without truth.

        Predictions, best first, match the nearest unmatched object of their class within MAX_DISTANCE_M.
        """
        if "boxes" not in self.sample:
            return None
        chosen = np.flatnonzero(np.asarray(self.scores) >= min_score)
        centers, labels = np.asarray(self.boxes)[chosen, :2], np.asarray(self.labels)[chosen]
        objects, classes = np.asarray(self.sample["boxes"])[:, :2], np.asarray(self.sample["classes"])
        right, matched = np.zeros(len(chosen), bool), np.zeros(len(objects), bool)
        for i in range(len(chosen)):
            free = np.flatnonzero(~matched & (classes == labels[i]))
            distance = np.linalg.norm(objects[free] - centers[i], axis=1)
            if len(free) and distance.min() < MAX_DISTANCE_M:
                right[i] = matched[free[distance.argmin()]] = True
        return right, matched

    def draw(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        return draw(pixels, list(self._solids(min_score)), self.sample)

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        has_truth = self.compared(min_score) is not None
        colour = (WRONG if self.mistakes(min_score) else RIGHT) if has_truth else INK
        return card(self.draw(pixels, classes, min_score), self.verdict(classes, min_score), self.path, colour)

    def _solids(self, min_score: float) -> Iterator[Solid]:
        """Yield the true boxes, then the predicted ones, colored by right or wrong if the truth is known."""
        match = self.compared(min_score)
        if match is not None:
            for box, matched in zip(np.asarray(self.sample["boxes"]), match[1]):
                yield Solid(box, MATCHED if matched else MISSED)
        for i, box in enumerate(np.asarray(self.boxes)[np.asarray(self.scores) >= min_score]):
            yield Solid(box, INK if match is None else RIGHT if match[0][i] else WRONG)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        colours, labels = class_colors(len(classes)).tolist(), np.asarray(truth["classes"]).tolist()
        solids = [Solid(box, tuple(colours[label])) for box, label in zip(np.asarray(truth["boxes"]), labels)]
        return resize_to_fit(np.asarray(draw(pixels, solids, truth)), *size)
