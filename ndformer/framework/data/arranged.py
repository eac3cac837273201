"""Base class of generated datasets with two tasks: the kind of the pieces in a sample, and their arrangement."""

from typing import Any, ClassVar, Literal

import numpy as np

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.errors import DataError
from ndformer.framework.registry.ranges import Count

VERSION = 1  # of the generators; part of every fingerprint
PARTS = 8  # kinds of pieces, and arrangements


class Arranged(Dataset):
    """A dataset in memory, generated from nothing but `size` and the split; `data_root` is not read.

    Every sample has pieces of one of eight kinds, in one of eight arrangements; both are independent and balanced, and
    `label` is one of them. A single token shows the kind. The arrangement can be learned from positions alone: tokens
    without their positions do not show it.
    """

    kinds: ClassVar[tuple[str, ...]]
    arrangements: ClassVar[tuple[str, ...]]

    def __init__(self, *args: Any, label: Literal["arrangement", "kind"], size: Count, **kwargs: Any) -> None:
        if size % PARTS**2:
            raise DataError(f"size must be divisible by {PARTS**2}, so that classes are balanced, got {size}")
        self.label, self.size = label, size
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = list(self.arrangements if self.label == "arrangement" else self.kinds)
        rng = np.random.default_rng((VERSION, split == "test"))
        arrangement, kind = np.divmod(rng.permutation(self.size) % PARTS**2, PARTS)  # (N,) each
        labels = arrangement if self.label == "arrangement" else kind
        seeds = rng.integers(2**32, size=self.size)
        return list(zip(seeds.tolist(), arrangement.tolist(), kind.tolist(), labels.tolist())), labels

    def identity(self, i: int) -> Any:
        return type(self).__name__, VERSION, self.records[i]

    def sample_files(self, i: int) -> Any:
        return ()

    def read(self, record: Any) -> Sample:
        seed, arrangement, kind, label = record
        return self.generate(arrangement, kind, np.random.default_rng(seed)) | dict(label=label)

    def generate(self, arrangement: int, kind: int, rng: np.random.Generator) -> Sample:
        """Generate a sample of this arrangement and kind of pieces, without its label."""
        raise NotImplementedError


DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1))  # (row, column)
HEADINGS = ("right", "left", "down", "up", "down_right", "up_left", "down_left", "up_right")
CELLS, STEPS, PIECES = 5, 3, 6  # cells along each side; steps of a path; pieces that move alike


def paths(direction: int, rng: np.random.Generator) -> np.ndarray:
    """Return the (row, column) cells (STEPS, PIECES, 2) of pieces that move on by one cell in each step.

    What leaves the grid enters at the opposite side, so that every cell is equally likely in every step.
    """
    start = np.stack(np.divmod(rng.permutation(CELLS**2)[:PIECES], CELLS), -1)
    return (start + np.arange(STEPS)[:, None, None] * DIRECTIONS[direction]) % CELLS


GRATINGS = tuple(f"{angle}_degrees_{period}_pixels" for period in (3, 5) for angle in (0, 45, 90, 135))


def grating(kind: int, rows: np.ndarray, columns: np.ndarray, phase: float) -> np.ndarray:
    """Return a sine grating of one of eight kinds at these pixels, -1 to 1."""
    angle, period = (kind % 4) * np.pi / 4, (3, 5)[kind // 4]
    return np.sin(2 * np.pi * (rows * np.sin(angle) + columns * np.cos(angle)) / period + phase)
