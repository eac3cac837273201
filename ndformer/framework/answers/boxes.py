"""2-D boxes with a class and a score, and how they are drawn next to the true boxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.answer import Source
from ndformer.framework.answers.objects import Objects, Verdict
from ndformer.framework.evaluation.coco.match import match
from ndformer.framework.evaluation.coco.metric import gather
from ndformer.framework.pictures.cards import INK, LINE, RIGHT, WRONG, class_colors, font, resize_to_fit
from ndformer.framework.registry import ANSWERS

SIDE, IOU = 640, 0.5  # height of a picture in pixels; IoU threshold of a match
MISSED, MATCHED = (60, 110, 220), (235, 235, 235)
LEGEND = {"right": RIGHT, "wrong": WRONG, "missed": MISSED, "true box": MATCHED}

IDENTITY_FRAME = (1.0, 1.0, 0.0, 0.0)  # scales and offsets of an image that was not transformed
Color = tuple[int, int, int]


@dataclass(frozen=True)
class Box:
    """A box to draw."""

    corners: Sequence[float]  # x1 y1 x2 y2
    color: Color
    text: str = ""
    tag: Color = INK  # background color of the text


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Boxes(Objects):
    """Detected boxes of one image, best first, in pixels of the image on disk."""

    metric = "CocoMetric"
    columns = ("path", "class", "score", "x1", "y1", "x2", "y2")
    legend = "file, boxes with class, score and corners (x1, y1, x2, y2)"

    digits = 2  # boxes (D, 4) are x1 y1 x2 y2

    @property
    def predictions(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(getattr(self, name)) for name in ("boxes", "labels", "scores")}

    @property
    def truth(self) -> dict[str, Any] | None:
        return self.sample.get("truth")

    def where(self, box: Sequence[float]) -> str:
        return ", ".join(f"{side:.0f}" for side in box)

    def compared(self, min_score: float) -> Verdict:
        predictions = self.predictions
        keep = np.flatnonzero(predictions["scores"] >= min_score)
        if self.truth is None:
            return Verdict(keep, np.zeros(len(keep), bool), keep[:0], None)
        objects = {k: np.asarray(v) for k, v in self.truth.items()}
        _, truth, found = gather([(0, objects, predictions)])
        matched = match(found.label[keep], found[keep], truth.label, truth, IOU)
        missed = np.setdiff1d(np.flatnonzero(~truth.out), matched)
        return Verdict(keep, matched >= 0, missed, int((~truth.out).sum()))

    def below(self, source: Source, i: int) -> np.ndarray:
        """Return the image to draw on: the image on disk if the input was transformed, otherwise the input."""
        moved = not np.array_equal(self.sample.get("frame", IDENTITY_FRAME), IDENTITY_FRAME)
        return source.original(i) if moved else source.picture(i)

    def draw(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        verdict = self.compared(min_score)
        picture = draw(pixels, list(outlines(self, verdict, classes)), SIDE, 2 * SIDE)
        return picture if verdict.object_count is None else with_legend(picture)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        boxes, labels = np.asarray(truth["boxes"]).tolist(), np.asarray(truth["labels"]).tolist()
        colors = in_colors(classes)
        return draw(
            pixels, [Box(box, colors[k], classes[k], colors[k]) for box, k in zip(boxes, map(int, labels))], *size
        )


def in_colors(classes: Sequence[str]) -> list[Color]:
    return [(r, g, b) for r, g, b in class_colors(len(classes)).tolist()]


def draw(pixels: np.ndarray, boxes: Sequence[Box], height: int, width: int) -> Any:
    """Return a PIL image as large as fits into (height, width), with boxes given in pixels of `pixels`."""
    from PIL import ImageDraw

    sheet = resize_to_fit(pixels, height, width)
    pen, down, across = ImageDraw.Draw(sheet), sheet.height / pixels.shape[0], sheet.width / pixels.shape[1]
    thick = 2 if sheet.height < 480 else 3
    for box in boxes:
        x1, y1, x2, y2 = (scale * side for scale, side in zip((across, down) * 2, box.corners))
        x2, y2 = max(x1, x2 - 1), max(y1, y2 - 1)  # Pillow includes the last pixel
        pen.rectangle((x1, y1, x2, y2), outline=(0, 0, 0), width=thick + 1)
        pen.rectangle((x1, y1, x2, y2), outline=box.color, width=thick)
    for box in boxes:  # text on top of all outlines
        if text := foreign.printable(box.text):
            x, y = across * box.corners[0] + 2, max(0.0, down * box.corners[1] - 14)
            left, top, right, bottom = pen.textbbox((x, y), text, font=font(11))
            x -= max(0, right + 2 - sheet.width)  # move text left into the image
            left, top, right, bottom = pen.textbbox((x, y), text, font=font(11))
            pen.rectangle((left - 2, top - 1, right + 2, bottom + 1), fill=box.tag)
            pen.text((x, y), text, fill="white" if sum(box.tag) < 400 else "black", font=font(11))
    return sheet


def with_legend(picture: Any) -> Any:
    """Return the picture with a legend of outline colors below it."""
    from PIL import Image, ImageDraw

    sheet = Image.new("RGB", (picture.width, picture.height + LINE), "white")
    sheet.paste(picture, (0, 0))
    pen, left = ImageDraw.Draw(sheet), 0
    for word, color in LEGEND.items():
        pen.rectangle((left, picture.height + 5, left + 10, picture.height + 15), fill=color, outline=(120, 120, 120))
        pen.text((left + 14, picture.height + 3), word, fill=INK, font=font(11))
        left += 26 + round(font(11).getlength(word))
    return sheet


def outlines(answer: Boxes, verdict: Verdict, classes: Sequence[str]) -> Iterator[Box]:
    """Yield the true boxes, then the predicted ones with their class and score.

    Outlines are colored by right or wrong if the truth is known, otherwise by class.
    """
    classes = answer.names(classes)
    colors = in_colors(classes)
    if answer.truth is not None:
        truth, labels = np.asarray(answer.truth["boxes"]).tolist(), np.asarray(answer.truth["labels"]).tolist()
        for i, (box, label) in enumerate(zip(truth, map(int, labels))):
            missed = i in verdict.missed
            yield Box(box, MISSED if missed else MATCHED, classes[label] if missed else "", colors[label])
    labels, scores, boxes = answer.labels.tolist(), answer.scores.tolist(), np.asarray(answer.boxes).tolist()
    for i, right in zip(verdict.indices[::-1].tolist(), verdict.right[::-1]):  # best on top
        class_color = colors[int(labels[i])]
        outline = class_color if verdict.object_count is None else RIGHT if right else WRONG
        yield Box(boxes[i], outline, f"{classes[int(labels[i])]} {scores[i]:.2f}", class_color)
