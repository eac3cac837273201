"""Answer: the prediction of a head for one sample, which programs print, draw and write to tables.

Extend it as a dataclass, register it in ANSWERS and return it from a head's predict(). The `answer` of a dataset names
the kind that its samples need. Kinds that ship are in answers/: Label, Boxes, Pixels, Points.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import card, resize_to_fit
from ndformer.framework.system import atomic


class Source(Protocol):
    """The samples that answers belong to, by number."""

    def picture(self, i: int) -> np.ndarray:
        """Return the model input as an image (H, W, 3) uint8."""
        ...

    def original(self, i: int) -> np.ndarray:
        """Return the sample as stored on disk, as an image (H, W, 3) uint8."""
        ...

    def write_labeled(self, stem: Path, i: int, labels: np.ndarray) -> None:
        """Write files that show the sample as stored on disk, with a label at each point."""
        ...


@dataclass(kw_only=True, eq=False, repr=False)
class Answer:
    """Base class of predictions: implement `rows` and `words`, and optionally `draw` and `annotated` for images."""

    metric: ClassVar[str]  # name of a metric for this kind of answer
    columns: ClassVar[tuple[str, ...]] = ()  # columns of a table, without those named by classes
    legend: ClassVar[str] = ""  # what words() prints, for a line above predictions
    tile: ClassVar[int] = 320  # height in pixels of a sample in a gallery
    captioned: ClassVar[str] = "name"  # its caption in a gallery: 'name' or 'class'

    sample: Mapping[str, Any]  # path, index and, if available, the ground truth
    task: str | None = None  # name of the head, where a model has several
    class_names: Sequence[str] = field(default=(), init=False)  # set by models from ndformer.load()

    def __str__(self) -> str:
        return self.words(self.class_names, 3, 0.3)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.path}{f': {self}' if self.class_names else ''}>"

    @property
    def table(self) -> list[dict[str, Any]]:
        """The prediction as rows of a table, with class names."""
        return self.rows(self.class_names)

    @property
    def path(self) -> str:
        return str(self.sample.get("path", ""))

    @property
    def finite(self) -> bool:
        """Whether all predicted numbers are finite."""
        numbers = (value for value in vars(self).values() if isinstance(value, (Tensor, np.ndarray)))
        return all(bool(torch.isfinite(torch.as_tensor(value)).all()) for value in numbers)

    def names(self, classes: Sequence[str]) -> list[str]:
        """Return the classes of this task among the classes of all tasks."""
        start = f"{self.task}: " if self.task else ""
        names = [name.removeprefix(start) for name in classes if name.startswith(start)]
        if start and not names:
            raise DataError(f"the checkpoint has no classes of '{self.task}'. It was not trained on this task")
        return names

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """Return rows of a table of predictions, one dict each."""
        raise TypeError(f"{type(self).__name__} cannot be written to a table. Implement rows(classes), a list of dicts")

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        """Return the columns of a table without rows."""
        return cls.columns

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        """Return a line of text: the `top` likeliest classes, or predictions with a score of `min_score` or more."""
        raise TypeError(
            f"{type(self).__name__} cannot be printed. Implement words(classes, top, min_score), which returns a line"
        )

    def mistakes(self, min_score: float) -> float:
        """Return the number of mistakes; galleries show the largest first."""
        return 0.0

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        """Return a short verdict for the title and the file name of the card."""
        return "predicted"

    def draw(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        """Return a PIL image of prediction and ground truth on `pixels`, the result of `below`."""
        return resize_to_fit(pixels, self.tile, 2 * self.tile)

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        """Return a PIL image with verdict and path as captions."""
        return card(self.draw(pixels, classes, min_score), self.verdict(classes, min_score), self.path)

    def below(self, source: Source, i: int) -> np.ndarray:
        """Return the image (H, W, 3) uint8 on which the answer is drawn."""
        return source.picture(i)

    def save(self, folder: Path, place: int, i: int, source: Source, classes: Sequence[str], min_score: float) -> None:
        """Write the card to the file 000_VERDICT_NAME.png in a folder."""
        file = f"{place:03}_{self.verdict(classes, min_score)}_{Path(self.path).stem or i}"[:120]
        drawn = self.card(self.below(source, i), classes, min_score)
        with atomic.replacing(folder / f"{re.sub(UNFIT, '-', file).rstrip('-.')}.png") as half:
            drawn.save(half)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        """Return a PIL image of a sample with its ground truth, scaled to fit into (height, width)."""
        return resize_to_fit(pixels, *size)


UNFIT = r"[^\w.-]+"  # characters not used in file names
