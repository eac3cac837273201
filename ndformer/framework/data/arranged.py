"""Base class of generated datasets with two tasks: the kind of the pieces in a sample, and their arrangement."""

from typing import Any, ClassVar, Literal

import numpy as np

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.holdout import stratified
from ndformer.framework.errors import DataError
from ndformer.framework.registry.ranges import Count

VERSION = 3  # of the generators; part of every fingerprint
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

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Hold out the same samples for both labels, as many of each arrangement and kind."""
        both = np.array([PARTS * arrangement + kind for _, arrangement, kind, _ in records])
        return stratified(both, share)

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


LINES = ("row", "row_down", "row_up", "column", "column_right", "column_left", "diagonal", "antidiagonal")
MOTION, SLANT = (0, 1, -1, 0, 1, -1, 0, 0), (0, 0, 0, 0, 0, 0, 1, -1)  # cells per step, and per cell along the line
STEPS, STRAY = 3, 0.1  # steps of a line; the share of its pieces that lie elsewhere


def line(arrangement: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """Return the (row, column) cells (STEPS, side, 2) of a line across a square grid of `side` cells.

    A line that moves goes on by one cell in each step; what leaves the grid enters at the opposite side. It begins at
    a random cell that is not at the border. A share of the pieces lies in any other cell instead.
    """
    along = np.broadcast_to(np.arange(side), (STEPS, side))
    moved = MOTION[arrangement] * np.arange(STEPS)[:, None]
    across = (rng.integers(1, side - 1) + moved + SLANT[arrangement] * along) % side
    upright = LINES[arrangement].startswith("column")
    cells = along * side + across if upright else across * side + along
    for step in cells:
        stray = rng.random(side) < STRAY
        step[stray] = rng.choice(np.setdiff1d(np.arange(side**2), step), stray.sum(), replace=False)
    return np.stack(np.divmod(cells, side), -1)


GRATINGS = tuple(f"{angle}_degrees_{period}_pixels" for period in (3, 5) for angle in (0, 45, 90, 135))


def grating(kind: int, rows: np.ndarray, columns: np.ndarray, phase: float) -> np.ndarray:
    """Return a sine grating of one of eight kinds at these pixels, -1 to 1."""
    angle, period = (kind % 4) * np.pi / 4, (3, 5)[kind // 4]
    return np.sin(2 * np.pi * (rows * np.sin(angle) + columns * np.cos(angle)) / period + phase)
