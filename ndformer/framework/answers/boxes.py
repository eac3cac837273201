"""Boxes with a class: detection. Drawn are those that are there, and those that were found, from a score on: on the
photo itself, labels in the colours of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.answer import Source
from ndformer.framework.answers.objects import Objects
from ndformer.framework.evaluation.coco.match import assign, best_first, overlapping
from ndformer.framework.evaluation.coco.metric import gather
from ndformer.framework.pictures.cards import INK, LINE, RIGHT, WRONG, card, class_colours, fitted, font
from ndformer.framework.registry import ANSWERS

SIDE, IOU = 640, 0.5  # of a picture; from which overlap on an object counts as found
MISSED, THERE = (60, 110, 220), (235, 235, 235)
MEANING = {"right": RIGHT, "wrong": WRONG, "missed": MISSED, "found, as it is": THERE}

STILL = (1.0, 1.0, 0.0, 0.0)  # scales and offsets of what was not moved
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Box:
    corners: Sequence[float]  # x1 y1 x2 y2
    colour: Colour
    text: str = ""  # what is written at it
    tag: Colour = INK  # what it is written on


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Boxes(Objects):
    """Best first, in pixels of the image on disk."""

    metric = "CocoMetric"
    columns = ("path", "class", "score", "x1", "y1", "x2", "y2")

    digits = 2  # boxes (D, 4) are x1 y1 x2 y2

    times: Any = None  # (D,) microseconds, of a recording that was looked at more than once

    @property
    def predictions(self) -> dict[str, np.ndarray]:
        parts = dict(boxes=self.boxes, labels=self.labels, scores=self.scores, times=self.times)
        return {name: np.asarray(part) for name, part in parts.items() if part is not None}

    @property
    def truth(self) -> dict[str, Any] | None:
        return self.sample.get("truth")

    def where(self, box: Sequence[float]) -> str:
        return ", ".join(f"{side:.0f}" for side in box)

    def mistakes(self, min_score: float) -> float:
        return Verdict.from_answer(self, min_score).mistakes

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        return str(Verdict.from_answer(self, min_score))

    def below(self, source: Source, i: int) -> np.ndarray:
        """What boxes are of: the photo, where its `frame` says that the model was given another."""
        moved = not np.array_equal(self.sample.get("frame", STILL), STILL)
        return source.original(i) if moved else source.picture(i)

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        verdict = Verdict.from_answer(self, min_score)
        colour = INK if verdict.object_count is None else WRONG if verdict.mistakes else RIGHT
        drawn = draw(pixels, list(outlines(self, verdict, classes)), SIDE, 2 * SIDE)
        return card(drawn if verdict.object_count is None else explained(drawn), str(verdict), self.path, colour)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        boxes, labels = np.asarray(truth["boxes"]).tolist(), np.asarray(truth["labels"]).tolist()
        colours = in_colours(classes)
        return draw(
            pixels, [Box(box, colours[k], classes[k], colours[k]) for box, k in zip(boxes, map(int, labels))], *size
        )


def in_colours(classes: Sequence[str]) -> list[Colour]:
    return [(r, g, b) for r, g, b in class_colours(len(classes)).tolist()]


def draw(pixels: np.ndarray, boxes: Sequence[Box], height: int, width: int) -> Any:
    """A PIL image as large as fits, with boxes given in the pixels of the small one."""
    from PIL import ImageDraw

    sheet = fitted(pixels, height, width)
    pen, scale = ImageDraw.Draw(sheet), sheet.height / len(pixels)
    thick = 2 if sheet.height < 480 else 3
    for box in boxes:
        x1, y1, x2, y2 = (scale * side for side in box.corners)
        x2, y2 = max(x1, x2 - 1), max(y1, y2 - 1)  # the last pixel that is inside
        pen.rectangle((x1, y1, x2, y2), outline=(0, 0, 0), width=thick + 1)
        pen.rectangle((x1, y1, x2, y2), outline=box.colour, width=thick)
    for box in boxes:  # above all outlines
        if text := foreign.printable(box.text):
            x, y = scale * box.corners[0] + 2, max(0.0, scale * box.corners[1] - 14)
            left, top, right, bottom = pen.textbbox((x, y), text, font=font(11))
            x -= max(0, right + 2 - sheet.width)  # as much as fits
            left, top, right, bottom = pen.textbbox((x, y), text, font=font(11))
            pen.rectangle((left - 2, top - 1, right + 2, bottom + 1), fill=box.tag)
            pen.text((x, y), text, fill="white" if sum(box.tag) < 400 else "black", font=font(11))
    return sheet


def explained(drawn: Any) -> Any:
    """A picture, and below it what the colours of outlines mean."""
    from PIL import Image, ImageDraw

    sheet = Image.new("RGB", (drawn.width, drawn.height + LINE), "white")
    sheet.paste(drawn, (0, 0))
    pen, left = ImageDraw.Draw(sheet), 0
    for word, colour in MEANING.items():
        pen.rectangle((left, drawn.height + 5, left + 10, drawn.height + 15), fill=colour, outline=(120, 120, 120))
        pen.text((left + 14, drawn.height + 3), word, fill=INK, font=font(11))
        left += 26 + round(font(11).getlength(word))
    return sheet


@dataclass(frozen=True, eq=False)
class Verdict:
    """Of what was found with a score of `least` or more."""

    indices: np.ndarray  # (S,) numbers of these, best first
    right: np.ndarray  # (S,) bool: takes an object of its class
    missed: np.ndarray  # numbers of objects that nothing takes
    object_count: int | None  # objects that are asked for; None where nobody knows

    @classmethod
    def from_answer(cls, one: Boxes, min_score: float) -> Verdict:
        seen = one.predictions
        keep = np.flatnonzero(seen["scores"] >= min_score)
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
        return 0 if self.object_count is None else len(self.missed) + int((~self.right).sum())

    def __str__(self) -> str:
        if self.object_count is None:
            return f"{len(self.indices)} found"
        wrong = int((~self.right).sum())
        return f"{self.object_count - len(self.missed)} of {self.object_count} found" + (
            f", {wrong} wrong" if wrong else ""
        )


def outlines(one: Boxes, verdict: Verdict, classes: Sequence[str]) -> Iterator[Box]:
    """First what is there, then what was found, with its class and score. Outlines say whether that is right, where it
    is known, and else the class."""
    colours = in_colours(classes)
    if one.truth is not None:
        truth, labels = np.asarray(one.truth["boxes"]).tolist(), np.asarray(one.truth["labels"]).tolist()
        for i, (box, label) in enumerate(zip(truth, map(int, labels))):
            missed = i in verdict.missed
            yield Box(box, MISSED if missed else THERE, classes[label] if missed else "", colours[label])
    labels, scores, found = one.labels.tolist(), one.scores.tolist(), np.asarray(one.boxes).tolist()
    for i, right in zip(verdict.indices[::-1].tolist(), verdict.right[::-1]):  # the surest on top
        own = colours[int(labels[i])]
        outline = own if verdict.object_count is None else RIGHT if right else WRONG
        yield Box(found[i], outline, f"{classes[int(labels[i])]} {scores[i]:.2f}", own)
