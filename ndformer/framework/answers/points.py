"""A class for every point of a cloud, or for every token: its files are written as the data is on disk."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.answer import UNFIT, Source
from ndformer.framework.answers.pixels import Pixels
from ndformer.framework.pictures.cards import fitted
from ndformer.framework.registry import ANSWERS


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Points(Pixels):
    """`predicted` (N,), and the `truth` (N,) of the sample where it is known."""

    tile = 128

    def mistakes(self, min_score: float) -> float:
        return -1.0 if self.truth is None else -self.right

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        return fitted(pixels, *size)

    def save(self, folder: Path, place: int, i: int, source: Source, classes: Sequence[str], min_score: float) -> None:
        """000_NAME.png, 000_NAME_error.ply ... by what packs such samples; without truth, by name alone."""
        name = re.sub(UNFIT, "-", Path(self.path).name or str(i))
        name = Path(self.path).stem if self.truth is None else f"{place:03}_{name}"
        source.write_labelled(folder / name, i, np.asarray(self.predicted).astype(np.int64))
