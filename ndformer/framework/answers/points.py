"""The answer of point segmentation: a class for every point or token, saved in the format of the data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.answer import UNFIT, Source
from ndformer.framework.answers.pixels import Pixels
from ndformer.framework.pictures.cards import resize_to_fit
from ndformer.framework.registry import ANSWERS


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Points(Pixels):
    """The classes `predicted` (N,) of points; the sample has the `truth` (N,) if it is known."""

    legend = "file, classes with their shares of the points"
    tile = 128

    def mistakes(self, min_score: float) -> float:
        return -1.0 if self.truth is None else -self.right

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        return resize_to_fit(pixels, *size)

    def save(self, folder: Path, place: int, i: int, source: Source, classes: Sequence[str], min_score: float) -> None:
        """Write 000_NAME.png, 000_NAME_error.ply, ... with the dataset's pack; without truth, without a number."""
        name = re.sub(UNFIT, "-", Path(self.path).name or str(i))
        name = Path(self.path).stem if self.truth is None else f"{place:03}_{name}"
        source.write_labelled(folder / name, i, np.asarray(self.predicted).astype(np.int64))
