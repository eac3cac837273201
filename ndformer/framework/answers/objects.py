"""Base class of answers with objects that have a class, a score and a box of any kind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ndformer.framework.answer import Answer
from ndformer.framework.pictures.cards import INK, RIGHT, WRONG, card


@dataclass(frozen=True, eq=False)
class Verdict:
    """The match between true objects and predictions with a score of at least `min_score`."""

    indices: np.ndarray  # (S,) indices of these predictions
    right: np.ndarray  # (S,) bool: matched to an object of its class
    missed: np.ndarray  # indices of objects without a matching prediction
    object_count: int | None  # objects that count (no crowds); None if the truth is unknown

    @property
    def mistakes(self) -> int:
        return 0 if self.object_count is None else len(self.missed) + int((~self.right).sum())

    @property
    def color(self) -> tuple[int, int, int]:
        return INK if self.object_count is None else WRONG if self.mistakes else RIGHT

    def __str__(self) -> str:
        if self.object_count is None:
            return f"{len(self.indices)} found"
        wrong = int((~self.right).sum())
        return f"{self.object_count - len(self.missed)} of {self.object_count} found" + (
            f", {wrong} wrong" if wrong else ""
        )


@dataclass(kw_only=True, eq=False, repr=False)
class Objects(Answer):
    """Detected objects, best first. `where` and `compared` are abstract; `columns` must end with those of a box."""

    digits: ClassVar[int]  # decimals of box coordinates in a table

    boxes: Any  # (D, coordinates), a tensor or array, as the next two
    labels: Any  # (D,)
    scores: Any  # (D,)

    def where(self, box: Sequence[float]) -> str:
        """Return a box as readable text."""
        raise NotImplementedError

    def compared(self, min_score: float) -> Verdict:
        """Return which predictions with at least this score are right, and which true objects they match."""
        raise NotImplementedError

    def mistakes(self, min_score: float) -> float:
        return self.compared(min_score).mistakes

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        return str(self.compared(min_score))

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        verdict = self.compared(min_score)
        return card(self.draw(pixels, classes, min_score), str(verdict), self.path, verdict.color)

    def _objects(self, classes: Sequence[str]) -> Iterator[tuple[str, float, list[float]]]:
        names = self.names(classes)
        for label, score, box in zip(self.labels.tolist(), self.scores.tolist(), self.boxes.tolist()):
            yield names[int(label)], score, box

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """Return one table row per object."""
        return [
            dict(zip(self.columns, (self.path, name, round(score, 6), *(round(side, self.digits) for side in box))))
            for name, score, box in self._objects(classes)
        ]

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        objects = self._objects(classes)
        texts = [f"{name} {score:.3f} ({self.where(box)})" for name, score, box in objects if score >= min_score]
        best = next(self._objects(classes), None)
        hint = "" if best is None else f", the best is {best[0]} {best[1]:.3f}"
        return "  ".join(texts) or f"nothing with a score of {min_score:g} or more{hint}"
