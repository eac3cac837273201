"""A class for every cell of a small grid, correct only if all cells are: the answers of ARC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework.answers.pixels import Pixels, painted
from ndformer.framework.pictures.cards import resize_to_fit
from ndformer.framework.registry import ANSWERS


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Cells(Pixels):
    """The classes `predicted` (h, w) of a grid; the sample has the `truth` (h, w) if it is known."""

    metric = "SolveRate"
    columns = ("path", "solved", "cells")
    legend = "file, rows of the grid"

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        solved = "" if self.truth is None else self.right == 1
        return [dict(path=self.path, solved=solved, cells=self.words(classes, 0, 0.0))]

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        return cls.columns

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        """Return the rows of the grid in one line, separated by slashes."""
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
        """Return the input and the true answer side by side."""
        answer = painted(np.asarray(truth["labels"]), len(classes))
        answer = np.asarray(resize_to_fit(answer, *pixels.shape[:2]))
        return resize_to_fit(np.concatenate([pixels, answer], axis=1) if len(answer) == len(pixels) else pixels, *size)
