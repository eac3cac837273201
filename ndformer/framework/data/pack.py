"""Base class of packs: the last transform of a dataset, which makes an adapter's input from a sample and draws it."""

import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError


class Pack:
    """Base class of packs: define `input_name` and __call__, and `picture` to make samples viewable.

    The constructor without arguments returns a pack that draws samples as they are on disk.
    """

    input_name: ClassVar[str]  # key of what it packs, in samples and inputs
    extra_input_names: ClassVar[tuple[str, ...]] = ()  # keys of what it packs and draws in addition

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "write_labelled" in vars(cls):
            warnings.warn(
                f"{cls.__name__}: write_labelled is called write_labeled now", DeprecationWarning, stacklevel=2
            )
            # a type checker takes a method for constant
            cls.write_labeled = vars(cls)["write_labelled"]  # type: ignore[method-assign]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Return dict(inputs={input_name: tensor}, data_sample=all other fields)."""
        raise NotImplementedError

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """Return an (H, W, 3) uint8 picture of a sample, packed or not; `size` high if it has no natural size."""
        raise DataError(
            f"nothing draws samples of {self.input_name}: give {type(self).__name__}, which packs them, a "
            "picture(sample, size), as docs/how-to/new-modality.md shows"
        )

    def write_labeled(self, stem: Path, sample: Sample, labels: np.ndarray, classes: Any) -> None:
        """Write files that show a sample with a label at each of its points: STEM.png, STEM_error.ply, ..."""
        raise DataError(
            f"nothing draws labeled samples of {self.input_name}: give {type(self).__name__} a write_labeled()"
        )
