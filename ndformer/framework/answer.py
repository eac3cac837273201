"""Answer: what a head says of one sample. Programs table, print and draw it without knowing which kind it is.

Extend it as a dataclass, register it in ANSWERS and return it from a head's predict(). A dataset says with its `answer`
which kind its samples are asked for. Those that ship are in answers/: Label, Boxes, Pixels, Points.
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
    """The samples that answers are about, by their numbers."""

    def picture(self, i: int) -> np.ndarray:
        """(H, W, 3) uint8: what the model was given."""
        ...

    def original(self, i: int) -> np.ndarray:
        """(H, W, 3) uint8: the sample as it is on disk."""
        ...

    def write_labelled(self, stem: Path, i: int, labels: np.ndarray) -> None:
        """Files that show a sample as it is on disk, with a label at each of its points."""
        ...


@dataclass(kw_only=True, eq=False, repr=False)
class Answer:
    """Extend it with `rows` and `words`; with `draw` and `annotated`, what was said and what is true can be seen."""

    metric: ClassVar[str]  # the name of one that reads it
    columns: ClassVar[tuple[str, ...]] = ()  # of a table, as far as classes are none of them
    tile: ClassVar[int] = 320  # pixels, the height of a sample on a sheet of many
    captioned: ClassVar[str] = "name"  # what is written above it there: its 'name' or its 'class'

    sample: Mapping[str, Any]  # what the sample says of itself: path, index, and the truth where it is known
    task: str | None = None  # which of several heads says it
    known: Sequence[str] = field(
        default=(), init=False
    )  # the names of its classes, of a model that ndformer.load() made

    def __str__(self) -> str:
        """A line for people."""
        return self.words(self.known, 3, 0.3)

    def __repr__(self) -> str:
        """As short, for lists of them."""
        return f"<{type(self).__name__} of {self.path}{f': {self}' if self.known else ''}>"

    @property
    def table(self) -> list[dict[str, Any]]:
        """What it says, as rows of a table with names."""
        return self.rows(self.known)

    @property
    def path(self) -> str:
        return str(self.sample.get("path", ""))

    @property
    def finite(self) -> bool:
        """Whether all numbers that it says are."""
        numbers = (value for value in vars(self).values() if isinstance(value, (Tensor, np.ndarray)))
        return all(bool(torch.isfinite(torch.as_tensor(value)).all()) for value in numbers)

    def names(self, classes: Sequence[str]) -> list[str]:
        """The classes that it chose from: with several tasks, those of its own."""
        start = f"{self.task}: " if self.task else ""
        found = [name.removeprefix(start) for name in classes if name.startswith(start)]
        if start and not found:
            raise DataError(f"this checkpoint has no classes of '{self.task}', on which it was not trained")
        return found

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """Rows of a table of predictions, a dict each."""
        raise TypeError(f"{type(self).__name__} does not fit a table: give it rows(classes), a list of dicts")

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        """The columns of a table that has no rows."""
        return cls.columns

    def words(self, classes: Sequence[str], top: int, least: float) -> str:
        """A line for people: the `top` likeliest, or what has a score of `least` or more."""
        raise TypeError(f"{type(self).__name__} has no words: give it words(classes, top, least), a line of text")

    def mistakes(self, least: float) -> float:
        """Cards of the largest come first."""
        return 0.0

    def verdict(self, classes: Sequence[str], least: float) -> str:
        """A few words: at the head of its card and in the name of its file."""
        return "predicted"

    def draw(self, pixels: np.ndarray, classes: Sequence[str], least: float) -> Any:
        """A PIL image: what was said, and what is true, on what `below` gives."""
        return resize_to_fit(pixels, self.tile, 2 * self.tile)

    def card(self, pixels: np.ndarray, classes: Sequence[str], least: float) -> Any:
        """A PIL image, with its verdict and its name."""
        return card(self.draw(pixels, classes, least), self.verdict(classes, least), self.path)

    def below(self, source: Source, i: int) -> np.ndarray:
        """(H, W, 3) uint8 that it is drawn on."""
        return source.picture(i)

    def save(self, folder: Path, place: int, i: int, source: Source, classes: Sequence[str], least: float) -> None:
        """Its card, among others: 000_VERDICT_NAME.png."""
        file = f"{place:03}_{self.verdict(classes, least)}_{Path(self.path).stem or i}"[:120]
        drawn = self.card(self.below(source, i), classes, least)
        with atomic.whole(folder / f"{re.sub(UNFIT, '-', file).rstrip('-.')}.png") as half:
            drawn.save(half)

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        """A PIL image as large as fits into (height, width): a sample, and what is true of it."""
        return resize_to_fit(pixels, *size)


UNFIT = r"[^\w.-]+"  # for names of files
