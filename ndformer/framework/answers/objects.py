"""Base class of answers with objects that have a class, a score and a box of any kind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ndformer.framework.answer import Answer


@dataclass(kw_only=True, eq=False, repr=False)
class Objects(Answer):
    """Detected objects, best first. Subclasses define `columns`, which end with those of a box, and `where`."""

    digits: ClassVar[int]  # decimals of box coordinates in a table

    boxes: Any  # (D, coordinates), a tensor or array, as the next two
    labels: Any  # (D,)
    scores: Any  # (D,)

    def where(self, box: Sequence[float]) -> str:
        """Return a box as readable text."""
        raise NotImplementedError

    def _objects(self, classes: Sequence[str]) -> Iterator[tuple[str, float, list[float]]]:
        for label, score, box in zip(self.labels.tolist(), self.scores.tolist(), self.boxes.tolist()):
            yield classes[int(label)], score, box

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
