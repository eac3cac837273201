"""Boxes in space with a class, a score and a velocity: 3-D detection. Drawn from above and in each camera."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework.answers.objects import Objects
from ndformer.framework.pictures.cards import INK, RIGHT, WRONG, card, class_colours, fitted
from ndformer.framework.pictures.solids import Solid, draw
from ndformer.framework.registry import ANSWERS

MAX_DISTANCE_M = 2.0  # metres between centres, below which an object counts as found
MISSED, THERE = (60, 110, 220), (160, 160, 160)


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Boxes3D(Objects):
    """In the frame of the cloud that the model was given, the surest first.

    A box is x, y, z of its centre, width, length, height, yaw, vx, vy. Of its sample it reads `boxes` and `classes`,
    what is true, and `views` and `windows`, where space is in its picture.
    """

    metric = "NuScenes"
    columns = ("path", "class", "score", "x", "y", "z", "width", "length", "height", "yaw", "vx", "vy")
    tile = 512

    digits = 3

    attributes: Any = None  # (D,) of nuScenes; None: as their speed says

    def where(self, box: Sequence[float]) -> str:
        return f"{box[0]:.1f}, {box[1]:.1f}, {box[2]:.1f} m"

    def mistakes(self, min_score: float) -> float:
        found = self.compared(min_score)
        return 0.0 if found is None else float((~found[0]).sum() + (~found[1]).sum())

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        found, shown = self.compared(min_score), int((np.asarray(self.scores) >= min_score).sum())
        if found is None:
            return f"{shown} found"
        right, seen = found
        wrong = int((~right).sum())
        return f"{int(seen.sum())} of {len(seen)} found" + (f", {wrong} wrong" if wrong else "")

    def compared(self, min_score: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Which of the predictions with such a score are right, and which objects were found; the surest choose first,
        each the nearest that is free, of its class. None where nobody knows what is there."""
        if "boxes" not in self.sample:
            return None
        shown = np.flatnonzero(np.asarray(self.scores) >= min_score)
        centres, labels = np.asarray(self.boxes)[shown, :2], np.asarray(self.labels)[shown]
        there, classes = np.asarray(self.sample["boxes"])[:, :2], np.asarray(self.sample["classes"])
        right, seen = np.zeros(len(shown), bool), np.zeros(len(there), bool)
        for i in range(len(shown)):
            free = np.flatnonzero(~seen & (classes == labels[i]))
            distance = np.linalg.norm(there[free] - centres[i], axis=1)
            if len(free) and distance.min() < MAX_DISTANCE_M:
                right[i] = seen[free[distance.argmin()]] = True
        return right, seen

    def draw(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        return draw(pixels, list(self._solids(min_score)), self.sample)

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        known = self.compared(min_score) is not None
        colour = (WRONG if self.mistakes(min_score) else RIGHT) if known else INK
        return card(self.draw(pixels, classes, min_score), self.verdict(classes, min_score), self.path, colour)

    def _solids(self, min_score: float) -> Iterator[Solid]:
        """What is there, then what was found: outlines say whether that is right, where it is known."""
        found = self.compared(min_score)
        if found is not None:
            for box, seen in zip(np.asarray(self.sample["boxes"]), found[1]):
                yield Solid(box, THERE if seen else MISSED)
        for i, box in enumerate(np.asarray(self.boxes)[np.asarray(self.scores) >= min_score]):
            yield Solid(box, INK if found is None else RIGHT if found[0][i] else WRONG)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        colours, labels = class_colours(len(classes)).tolist(), np.asarray(truth["classes"]).tolist()
        solids = [Solid(box, tuple(colours[label])) for box, label in zip(np.asarray(truth["boxes"]), labels)]
        return fitted(np.asarray(draw(pixels, solids, truth)), *size)
