"""A class for every cell of a small grid, right only as a whole: ARC's answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework.answers.pixels import Pixels, painted
from ndformer.framework.pictures.cards import fitted
from ndformer.framework.registry import ANSWERS


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Cells(Pixels):
    """`predicted` (h, w), and the `truth` (h, w) of the sample where it is known."""

    metric = "SolveRate"
    columns = ("path", "solved", "cells")

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        solved = "" if self.truth is None else self.right == 1
        return [dict(path=self.path, solved=solved, cells=self.words(classes, 0, 0.0))]

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        return cls.columns

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        """Its rows, one behind the other."""
        names = self.names(classes)
        rows = [[names[k] for k in row] for row in np.asarray(self.predicted).tolist()]
        return " / ".join(" ".join(row) for row in rows)

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        return (
            "predicted" if self.truth is None else "solved" if self.right == 1 else super().verdict(classes, min_score)
        )

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        """What is given, and beside it the answer."""
        answer = painted(np.asarray(truth["labels"]), len(classes))
        answer = np.asarray(fitted(answer, *pixels.shape[:2]))
        return fitted(np.concatenate([pixels, answer], axis=1) if len(answer) == len(pixels) else pixels, *size)
