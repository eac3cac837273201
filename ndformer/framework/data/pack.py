"""Pack: the transform that makes of a sample what an adapter takes, and knows what it looks like."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError


class Pack:
    """Extend it with `of` and __call__, the last of a set's transforms; with `picture`, its samples can be looked at.
    Without arguments, its constructor makes one that draws samples as they are on disk."""

    of: ClassVar[str]  # what it packs, by its name in samples and inputs
    beside: ClassVar[tuple[str, ...]] = ()  # what else it packs and draws, by their names

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """dict(inputs={of: tensor}, data_sample=all else)."""
        raise NotImplementedError

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """(H, W, 3) uint8 of a sample, packed or not yet; `size` high where it has no size of its own."""
        raise DataError(
            f"nothing draws samples of {self.of}: give {type(self).__name__}, which packs them, a "
            "picture(sample, size), as docs/how-to/new-modality.md shows"
        )

    def write_labelled(self, stem: Path, sample: Sample, labels: np.ndarray, classes: Any) -> None:
        """Files that show a sample as it is on disk with a label at each of its points: STEM.png, STEM_error.ply ..."""
        raise DataError(f"nothing draws labelled samples of {self.of}: give {type(self).__name__} a write_labelled()")
