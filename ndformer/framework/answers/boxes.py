"""Boxes with a class: detection. Drawn are those that are there, and those that were found, from a score on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework.answer import Answer
from ndformer.framework.evaluation.coco.match import assign, best_first, overlapping
from ndformer.framework.evaluation.coco.metric import gather
from ndformer.framework.pictures.cards import INK, RIGHT, WRONG, card, fitted, font
from ndformer.framework.registry import ANSWERS

SIDE, IOU = 480, 0.5  # of a picture; from which overlap on an object counts as found
MISSED, THERE = (60, 110, 220), (235, 235, 235)

Box = tuple[Sequence[float], str, tuple[int, int, int]]  # x1 y1 x2 y2, what is written at it, its colour


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False)
class Boxes(Answer):
    """Best first, in pixels of the image on disk."""

    metric = "CocoMetric"
    columns = ("path", "class", "score", "x1", "y1", "x2", "y2")

    boxes: Any  # (D, 4) x1 y1 x2 y2, tensor or array as all of these
    labels: Any  # (D,)
    scores: Any  # (D,)
    times: Any = None  # (D,) microseconds, of a recording that was looked at more than once

    @property
    def found(self) -> dict[str, np.ndarray]:
        parts = dict(boxes=self.boxes, labels=self.labels, scores=self.scores, times=self.times)
        return {name: np.asarray(part) for name, part in parts.items() if part is not None}

    @property
    def truth(self) -> dict[str, Any] | None:
        return self.sample.get("truth")

    def _objects(self, classes: Sequence[str]) -> Iterator[tuple[str, float, list[float]]]:
        for label, score, box in zip(self.labels.tolist(), self.scores.tolist(), self.boxes.tolist()):
            yield classes[int(label)], score, box

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """One for each object, the surest first."""
        return [
            dict(zip(self.columns, (self.path, name, round(score, 6), *(round(side, 2) for side in box))))
            for name, score, box in self._objects(classes)
        ]

    def words(self, classes: Sequence[str], top: int, least: float) -> str:
        shown = [
            f"{name} {score:.3f} ({', '.join(f'{side:.0f}' for side in box)})"
            for name, score, box in self._objects(classes)
            if score >= least
        ]
        return "  ".join(shown) or f"nothing with a score of {least:g} or more"

    def mistakes(self, least: float) -> float:
        return Verdict.of(self, least).mistakes

    def verdict(self, classes: Sequence[str], least: float) -> str:
        return str(Verdict.of(self, least))

    def card(self, pixels: np.ndarray, classes: Sequence[str], least: float) -> Any:
        verdict = Verdict.of(self, least)
        colour = INK if verdict.there is None else WRONG if verdict.mistakes else RIGHT
        drawn = draw(pixels, list(boxes_of(self, verdict, classes)), SIDE, 2 * SIDE)
        return card(drawn, str(verdict), self.path, colour)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        boxes, labels = np.asarray(truth["boxes"]).tolist(), np.asarray(truth["labels"]).tolist()
        return draw(pixels, [(box, classes[int(label)], RIGHT) for box, label in zip(boxes, labels)], *size)


def draw(pixels: np.ndarray, boxes: Sequence[Box], height: int, width: int) -> Any:
    """A PIL image as large as fits, with boxes given in the pixels of the small one."""
    from PIL import ImageDraw

    sheet = fitted(pixels, height, width)
    pen, scale = ImageDraw.Draw(sheet), sheet.height / len(pixels)
    for corners, text, colour in boxes:
        x1, y1, x2, y2 = (scale * side for side in corners)
        x2, y2 = max(x1, x2 - 1), max(y1, y2 - 1)  # the last pixel that is inside
        pen.rectangle((x1, y1, x2, y2), outline=(0, 0, 0), width=3)
        pen.rectangle((x1, y1, x2, y2), outline=colour, width=2)
        if text:
            left, top, right, bottom = pen.textbbox((x1 + 2, max(0, y1 - 14)), text, font=font(11))
            pen.rectangle((left - 2, top - 1, right + 2, bottom + 1), fill=colour)
            pen.text((x1 + 2, max(0, y1 - 14)), text, fill="white" if sum(colour) < 500 else "black", font=font(11))
    return sheet


def on_input(boxes: Any, sample: Mapping[str, Any]) -> np.ndarray:
    """(N, 4) boxes of an image on disk, in pixels of what the model was given."""
    corners = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if "frame" not in sample:
        return corners
    scale, offset = np.asarray(sample["frame"]).reshape(2, 2)
    moved = (corners - np.tile(offset, 2)) / np.tile(scale, 2)
    low, high = moved[:, :2], moved[:, 2:]
    return np.concatenate([np.minimum(low, high), np.maximum(low, high)], axis=1)


@dataclass(frozen=True, eq=False)
class Verdict:
    """Of what was found with a score of `least` or more."""

    shown: np.ndarray  # (S,) numbers of these, best first
    right: np.ndarray  # (S,) bool: takes an object of its class
    missed: np.ndarray  # numbers of objects that nothing takes
    there: int | None  # objects that are asked for; None where nobody knows

    @classmethod
    def of(cls, one: Boxes, least: float) -> Verdict:
        seen = one.found
        keep = np.flatnonzero(seen["scores"] >= least)
        if one.truth is None:
            return cls(keep, np.zeros(len(keep), bool), keep[:0], None)
        there = {k: np.asarray(v) for k, v in one.truth.items()}
        _, truth, found = gather([(0, there, seen)])
        found = found[keep]
        order, _ = best_first(found.label, found.score, len(keep))
        pairs = overlapping(found.label[order], found.box[order], truth.label, truth, IOU)
        taken = assign(pairs, truth.out, truth.crowd, np.array([IOU]), len(keep))[0]
        missed = np.setdiff1d(np.flatnonzero(~truth.out), taken)
        right = np.zeros(len(keep), bool)
        right[order] = taken >= 0
        return cls(keep, right, missed, int((~truth.out).sum()))

    @property
    def mistakes(self) -> int:
        return 0 if self.there is None else len(self.missed) + int((~self.right).sum())

    def __str__(self) -> str:
        if self.there is None:
            return f"{len(self.shown)} found"
        wrong = int((~self.right).sum())
        return f"{self.there - len(self.missed)} of {self.there} found" + (f", {wrong} wrong" if wrong else "")


def boxes_of(one: Boxes, verdict: Verdict, classes: Sequence[str]) -> Iterator[Box]:
    """First what is there, then what was found: green where right, orange where wrong; blue is what was missed."""
    if one.truth is not None:
        truth = on_input(one.truth["boxes"], one.sample).tolist()
        labels = np.asarray(one.truth["labels"]).tolist()
        for i, (box, label) in enumerate(zip(truth, labels)):
            missed = i in verdict.missed
            yield box, classes[int(label)] if missed else "", MISSED if missed else THERE
    found = on_input(one.boxes, one.sample)
    labels, scores = one.labels.tolist(), one.scores.tolist()
    for i, right in zip(verdict.shown[::-1], verdict.right[::-1]):  # the surest on top
        colour = INK if verdict.there is None else RIGHT if right else WRONG
        yield found[i].tolist(), f"{classes[int(labels[i])]} {scores[i]:.2f}", colour
