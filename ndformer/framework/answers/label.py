"""The answer of a classifier: one score per class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ndformer.framework.answer import Answer
from ndformer.framework.pictures.cards import (
    EDGE,
    GRAY,
    INK,
    LINE,
    OTHER,
    RIGHT,
    SIZE,
    WRONG,
    font,
    resize_to_fit,
    shortened,
)
from ndformer.framework.registry import ANSWERS

MIN_WIDTH, BAR_WIDTH, MAX_NAMES = 230, 90, 3  # of a card and of its longest bar, in pixels; classes listed on it


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Label(Answer):
    """The class scores of one sample."""

    metric = "Accuracy"
    columns = ("path", "truth", "prediction")
    legend = "file, classes with their scores (shares of 1, highest first)"
    tile = 128
    captioned = "class"

    scores: Tensor  # (classes,) probabilities

    @property
    def prediction(self) -> int:
        return int(self.scores.argmax())

    @property
    def label(self) -> int:
        """Return the true class, -1 if it is unknown."""
        return int(self.sample.get("label", -1))

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        names = self.names(classes)
        task = dict(task=self.task) if self.task else {}
        truth = names[self.label] if self.label >= 0 else ""
        row = dict(path=self.path, **task, truth=truth, prediction=names[self.prediction])
        return [row | {_column(name): round(score, 6) for name, score in zip(names, self.scores.tolist())}]

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        return [*cls.columns, *map(_column, classes)]

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        names = self.names(classes)
        best = self.scores.topk(min(top, len(names)))
        return "  ".join(f"{names[i]} {p:.3f}" for p, i in zip(best.values.tolist(), best.indices.tolist()))

    def mistakes(self, min_score: float) -> float:
        """Return a sort key: confident mistakes first, then uncertain correct ones, then samples without truth."""
        confidence = float(self.scores.max())
        return -1.0 if self.label < 0 else 1 - confidence if self.prediction == self.label else 2 + confidence

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        names = self.names(classes)
        predicted = names[self.prediction]
        if self.label < 0:
            return predicted
        return f"right_{predicted}" if self.prediction == self.label else f"wrong_{names[self.label]}_as_{predicted}"

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        """Return a PIL image: the prediction, the picture, bars of the likeliest classes, and the path."""
        from PIL import Image, ImageDraw

        names, scores = self.names(classes), self.scores.tolist()
        truth = names[self.label] if self.label >= 0 else None
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        predicted, listed = names[order[0]], order[:MAX_NAMES]
        if truth is not None and names.index(truth) not in listed:
            listed.append(names.index(truth))
        picture = resize_to_fit(pixels, SIZE, 4 * SIZE)
        wide = max(picture.width, MIN_WIDTH) + 2 * EDGE
        sheet = Image.new("RGB", (wide, picture.height + LINE * (len(listed) + 2) + 3 * EDGE + 6), "white")
        pen = ImageDraw.Draw(sheet)
        head = predicted if truth in (None, predicted) else f"predicted {predicted}, is {truth}"
        color = INK if truth is None else RIGHT if truth == predicted else WRONG
        pen.text((EDGE, EDGE - 4), shortened(head, wide - 2 * EDGE, 15), fill=color, font=font(15))
        top = EDGE + LINE + 4
        sheet.paste(picture, ((wide - picture.width) // 2, top))
        top += picture.height + 8
        room = min(wide - 2 * EDGE - BAR_WIDTH - 44, 180)
        for i in listed:
            tint = RIGHT if names[i] == truth else WRONG if names[i] == predicted and truth is not None else OTHER
            pen.text((EDGE, top), shortened(names[i], room, 12), fill=INK, font=font(12))
            left = EDGE + room + 6
            pen.rectangle((left, top + 3, left + max(1, round(BAR_WIDTH * scores[i])), top + 13), fill=tint)
            pen.text((left + BAR_WIDTH + 6, top), f"{scores[i]:.2f}", fill=INK, font=font(12))
            top += LINE
        pen.text((EDGE, top + 4), shortened(self.path, wide - 2 * EDGE, 10, end=True), fill=GRAY, font=font(10))
        return sheet


def _column(name: str) -> str:
    """Return the column name of a class, which may be that of another column."""
    return f"class {name}" if name in (*Label.columns, "task") else name
