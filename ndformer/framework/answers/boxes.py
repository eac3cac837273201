"""Pictures of samples with boxes: those that are there, and those that were found, from a score on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.evaluation.coco.match import assign, best_first, overlapping
from ndformer.framework.evaluation.coco.metric import gather
from ndformer.framework.pictures.cards import EDGE, GREY, INK, LINE, RIGHT, WRONG, fitted, font, shortened

SIDE, IOU = 480, 0.5  # of a picture; from which overlap on an object counts as found
MISSED, THERE = (60, 110, 220), (235, 235, 235)

Box = tuple[Sequence[float], str, tuple[int, int, int]]  # x1 y1 x2 y2, what is written at it, its colour


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


def on_input(boxes: Any, sample: dict[str, Any]) -> np.ndarray:
    """(N, 4) boxes of an image on disk, in pixels of what the model was given."""
    corners = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if "frame" not in sample:
        return corners
    scale, offset = np.asarray(sample["frame"]).reshape(2, 2)
    moved = (corners - np.tile(offset, 2)) / np.tile(scale, 2)
    low, high = moved[:, :2], moved[:, 2:]
    return np.concatenate([np.minimum(low, high), np.maximum(low, high)], axis=1)


def annotated(sample: dict[str, Any], classes: list[str]) -> list[Box]:
    """The boxes that a sample, packed or not, is trained with."""
    held = sample.get("data_sample", sample)
    boxes, labels = np.asarray(held["boxes"]), np.asarray(held["labels"])
    return [(box, classes[label], RIGHT) for box, label in zip(boxes.tolist(), labels.tolist())]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Of what was found with a score of `least` or more."""

    shown: np.ndarray  # (S,) numbers of these, best first
    right: np.ndarray  # (S,) bool: takes an object of its class
    missed: np.ndarray  # numbers of objects that nothing takes
    there: int | None  # objects, without crowds; None where nobody knows

    @classmethod
    def of(cls, one: dict[str, Any], least: float) -> Verdict:
        scores = np.asarray(one["found"]["scores"])
        keep = np.flatnonzero(scores >= least)
        if "truth" not in one:
            return cls(keep, np.zeros(len(keep), bool), keep[:0], None)
        there, seen = ({k: np.asarray(v) for k, v in part.items()} for part in (one["truth"], one["found"]))
        _, truth, found = gather([(0, there, seen)])
        found = found[keep]
        order, _ = best_first(found.label, found.score, len(keep))
        pairs = overlapping(found.label[order], found.box[order], truth.label, truth, IOU)
        taken = assign(pairs, truth.crowd, truth.crowd, np.array([IOU]), len(keep))[0]
        missed = np.setdiff1d(np.flatnonzero(~truth.crowd), taken)
        right = np.zeros(len(keep), bool)
        right[order] = taken >= 0
        return cls(keep, right, missed, int((~truth.crowd).sum()))

    @property
    def mistakes(self) -> int:
        return 0 if self.there is None else len(self.missed) + int((~self.right).sum())

    def __str__(self) -> str:
        if self.there is None:
            return f"{len(self.shown)} found"
        wrong = int((~self.right).sum())
        return f"{self.there - len(self.missed)} of {self.there} found" + (f", {wrong} wrong" if wrong else "")


def boxes_of(one: dict[str, Any], verdict: Verdict, classes: list[str]) -> Iterator[Box]:
    """First what is there, then what was found: green where right, orange where wrong; blue is what was missed."""
    if verdict.there is not None:
        truth = on_input(one["truth"]["boxes"], one).tolist()
        labels = np.asarray(one["truth"]["labels"]).tolist()
        for i, (box, label) in enumerate(zip(truth, labels)):
            missed = i in verdict.missed
            yield box, classes[label] if missed else "", MISSED if missed else THERE
    found = on_input(one["found"]["boxes"], one)
    labels, scores = (np.asarray(one["found"][key]) for key in ("labels", "scores"))
    for i, right in zip(verdict.shown[::-1], verdict.right[::-1]):  # the surest on top
        colour = INK if verdict.there is None else RIGHT if right else WRONG
        yield found[i].tolist(), f"{classes[labels[i]]} {scores[i]:.2f}", colour


def show(
    folder: Path,
    predictions: Sequence[dict[str, Any]],
    classes: list[str],
    picture_of: Callable[[int], np.ndarray],
    count: int,
    least: float,
) -> None:
    """A card each, at most `count`, those with most mistakes first: 000_2-of-3-found-1-wrong_NAME.png"""
    folder.mkdir(parents=True, exist_ok=True)
    verdicts = [Verdict.of(one, least) for one in predictions]
    order = sorted(range(len(verdicts)), key=lambda i: -verdicts[i].mistakes)
    for place, i in enumerate(order[:count]):
        name = str(predictions[i].get("path", ""))
        boxes = list(boxes_of(predictions[i], verdicts[i], classes))
        file = re.sub(r"[^\w.-]+", "-", f"{place:03}_{verdicts[i]}_{Path(name).stem or i}"[:120]).rstrip("-.")
        card(draw(picture_of(i), boxes, SIDE, 2 * SIDE), verdicts[i], name).save(folder / f"{file}.png")


def card(drawn: Any, verdict: Verdict, title: str) -> Any:
    """A picture below what is said of it and above its name."""
    from PIL import Image, ImageDraw

    wide = drawn.width + 2 * EDGE
    sheet = Image.new("RGB", (wide, drawn.height + 2 * LINE + 3 * EDGE), "white")
    pen = ImageDraw.Draw(sheet)
    colour = INK if verdict.there is None else WRONG if verdict.mistakes else RIGHT
    pen.text((EDGE, EDGE - 4), shortened(str(verdict), wide - 2 * EDGE, 15), fill=colour, font=font(15))
    sheet.paste(drawn, (EDGE, EDGE + LINE + 4))
    name = shortened(title, wide - 2 * EDGE, 10, end=True)
    pen.text((EDGE, drawn.height + LINE + 2 * EDGE), name, fill=GREY, font=font(10))
    return sheet
