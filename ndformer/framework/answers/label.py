"""One label per sample: classification."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ndformer.framework.answer import Answer
from ndformer.framework.pictures.cards import EDGE, GREY, INK, LINE, OTHER, RIGHT, SIZE, WRONG, fitted, font, shortened
from ndformer.framework.registry import ANSWERS

MIN_WIDTH, BAR_WIDTH, MAX_NAMES = (
    230,
    90,
    3,
)  # the least width of a card, the longest bar, and how many classes are named


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Label(Answer):
    metric = "Accuracy"
    columns = ("path", "truth", "prediction")
    tile = 128
    captioned = "class"

    scores: Tensor  # (classes,), they sum to 1

    @property
    def prediction(self) -> int:
        return int(self.scores.argmax())

    @property
    def label(self) -> int:
        """The truth; -1 where nobody knows."""
        return int(self.sample.get("label", -1))

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        names = self.names(classes)
        task = dict(task=self.task) if self.task else {}
        truth = names[self.label] if self.label >= 0 else ""
        own = dict(path=self.path, **task, truth=truth, prediction=names[self.prediction])
        return [own | {_column(name): round(score, 6) for name, score in zip(names, self.scores.tolist())}]

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        return [*cls.columns, *map(_column, classes)]

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        names = self.names(classes)
        best = self.scores.topk(min(top, len(names)))
        return "  ".join(f"{names[i]} {p:.3f}" for p, i in zip(best.values.tolist(), best.indices.tolist()))

    def mistakes(self, min_score: float) -> float:
        """Of the wrong ones, the surest first; of the right ones, the least sure first; then those without truth."""
        sure = float(self.scores.max())
        return -1.0 if self.label < 0 else 1 - sure if self.prediction == self.label else 2 + sure

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        names = self.names(classes)
        says = names[self.prediction]
        if self.label < 0:
            return says
        return f"right_{says}" if self.prediction == self.label else f"wrong_{names[self.label]}_as_{says}"

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        names = self.names(classes)
        return card(pixels, names, self.scores.tolist(), names[self.label] if self.label >= 0 else None, self.path)


def _column(name: str) -> str:
    """That of a class, which may be called as another column is."""
    return f"class {name}" if name in (*Label.columns, "task") else name


def card(pixels: np.ndarray, names: list[str], scores: list[float], truth: str | None, title: str) -> Any:
    """A picture below what is said of it, above the likeliest classes and the sample's own name. A PIL image."""
    from PIL import Image, ImageDraw

    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    says, shown = names[order[0]], order[:MAX_NAMES]
    if truth is not None and names.index(truth) not in shown:
        shown.append(names.index(truth))
    drawn = fitted(pixels, SIZE, 4 * SIZE)
    wide = max(drawn.width, MIN_WIDTH) + 2 * EDGE
    sheet = Image.new("RGB", (wide, drawn.height + LINE * (len(shown) + 2) + 3 * EDGE + 6), "white")
    pen = ImageDraw.Draw(sheet)
    head = says if truth in (None, says) else f"says {says}, is {truth}"
    colour = INK if truth is None else RIGHT if truth == says else WRONG
    pen.text((EDGE, EDGE - 4), shortened(head, wide - 2 * EDGE, 15), fill=colour, font=font(15))
    top = EDGE + LINE + 4
    sheet.paste(drawn, ((wide - drawn.width) // 2, top))
    top += drawn.height + 8
    room = min(wide - 2 * EDGE - BAR_WIDTH - 44, 180)
    for i in shown:
        tint = RIGHT if names[i] == truth else WRONG if names[i] == says and truth is not None else OTHER
        pen.text((EDGE, top), shortened(names[i], room, 12), fill=INK, font=font(12))
        left = EDGE + room + 6
        pen.rectangle((left, top + 3, left + max(1, round(BAR_WIDTH * scores[i])), top + 13), fill=tint)
        pen.text((left + BAR_WIDTH + 6, top), f"{scores[i]:.2f}", fill=INK, font=font(12))
        top += LINE
    pen.text((EDGE, top + 4), shortened(title, wide - 2 * EDGE, 10, end=True), fill=GREY, font=font(10))
    return sheet
