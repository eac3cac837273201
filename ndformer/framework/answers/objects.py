"""Objects with a class and a score, whatever their boxes are: as rows of a table, and in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ndformer.framework.answer import Answer


@dataclass(kw_only=True, eq=False, repr=False)
class Objects(Answer):
    """Extend it with `columns`, which end with a box's, and `where`. The surest come first."""

    digits: ClassVar[int]  # of a box in a row

    boxes: Any  # (D, sides), tensor or array as all of these
    labels: Any  # (D,)
    scores: Any  # (D,)

    def where(self, box: Sequence[float]) -> str:
        """A box, told to a person."""
        raise NotImplementedError

    def _objects(self, classes: Sequence[str]) -> Iterator[tuple[str, float, list[float]]]:
        for label, score, box in zip(self.labels.tolist(), self.scores.tolist(), self.boxes.tolist()):
            yield classes[int(label)], score, box

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """One for each object."""
        return [
            dict(zip(self.columns, (self.path, name, round(score, 6), *(round(side, self.digits) for side in box))))
            for name, score, box in self._objects(classes)
        ]

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        objects = self._objects(classes)
        shown = [f"{name} {score:.3f} ({self.where(box)})" for name, score, box in objects if score >= min_score]
        best = next(self._objects(classes), None)
        but = "" if best is None else f", the best is {best[0]} {best[1]:.3f}"
        return "  ".join(shown) or f"nothing with a score of {min_score:g} or more{but}"
