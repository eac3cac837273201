"""KeepAspect: resizing that keeps the ratio of an image, so that a batch has images of different sizes."""

import math
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Side, SomeShareSpan, Span
from ndformer.modalities.image.transforms.boxes import resize_and_crop


@TRANSFORMS.register_module()
class KeepAspect:
    """Resize image, boxes and mask so that the longer side has `longest` pixels and the ratio of the sides is kept.

    Both sides become multiples of `multiple_of`, the patch of the model, and have at least one. It comes first in the
    transforms, so that `batch_tokens` knows the sizes before images are decoded. For training, `scale` and `ratio` take
    a random piece of the image: a share of its area, with the ratio of width to height multiplied by a log-uniform
    factor. `stretch` then distorts it by another such factor.
    """

    def __init__(
        self,
        longest: Side,
        multiple_of: Side = 16,
        scale: SomeShareSpan = (1.0, 1.0),
        ratio: Span = (1.0, 1.0),
        stretch: Span = (1.0, 1.0),
    ) -> None:
        if longest % multiple_of:
            nearest = max(1, round(longest / multiple_of)) * multiple_of
            raise ValueError(
                f"longest must be a multiple of multiple_of={multiple_of}, got {longest}. Set longest={nearest}"
            )
        self.longest, self.multiple_of = longest, multiple_of
        self.scale, self.ratio = (scale[0], scale[1]), (ratio[0], ratio[1])  # a config may have lists
        self.stretch = stretch[0], stretch[1]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image = sample["image"]
        ratio = self._check_ratio(image.height, image.width, sample.get("path"))
        share, factor, stretch = 1.0, 1.0, 1.0
        if self.scale != (1.0, 1.0) or self.ratio != (1.0, 1.0):
            share, factor = rng.uniform(*self.scale), _log_uniform(rng, *self.ratio)
        if self.stretch != (1.0, 1.0):
            stretch = _log_uniform(rng, *self.stretch)
        height, width = self._size(ratio * factor * stretch, sample.get("max_tokens"))
        # the piece, in pixels of the image: `share` of its area at the new ratio, or the largest such piece inside it
        side = math.sqrt(share * image.height * image.width)
        piece = np.array([side / math.sqrt(ratio * factor), side * math.sqrt(ratio * factor)])  # height, width
        piece *= min(1.0, image.height / piece[0], image.width / piece[1])
        enlarged = np.maximum(np.rint([height, width] / piece * [image.height, image.width]), [height, width])
        new = int(enlarged[1]), int(enlarged[0])
        left, top = (int(rng.integers(room + 1)) if room else 0 for room in (new[0] - width, new[1] - height))
        return resize_and_crop(sample, new, left, top, height, width)

    def largest_size(self, height: int, width: int, path: Any = None) -> tuple[int, int]:
        """Return the largest height and width that an image of this size gets, without `max_tokens`."""
        ratio = self._check_ratio(height, width, path)
        low, high = (ratio * factor * stretch for factor, stretch in zip(self.ratio, self.stretch, strict=True))
        return self._size(min(max(1.0, low), high), None)  # the most patches are at the ratio nearest to a square

    def check(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Return the sample unchanged, or raise DataError if this transform refuses its image."""
        self._check_ratio(sample["image"].height, sample["image"].width, sample.get("path"))
        return sample

    def _check_ratio(self, height: int, width: int, path: Any) -> float:
        ratio, cells = width / height, self.longest // self.multiple_of
        if cells * min(ratio, 1 / ratio) < 0.5:
            raise DataError(
                f"{path or 'an image'} has {height} x {width} pixels: with a longer side of {self.longest} its shorter "
                f"side has less than half a patch of {self.multiple_of}. Crop or remove the image, or set a larger "
                "`longest` of KeepAspect"
            )
        return ratio

    def _size(self, ratio: float, max_tokens: int | None) -> tuple[int, int]:
        """Return height and width for a ratio of width to height, with at most `max_tokens` patches."""
        short = min(ratio, 1 / ratio)
        cells = self.longest // self.multiple_of
        while max_tokens is not None and cells > 1 and cells * max(1, round(cells * short)) > max_tokens:
            cells -= 1
        longer, shorter = cells * self.multiple_of, max(1, round(cells * short)) * self.multiple_of
        return (shorter, longer) if ratio > 1 else (longer, shorter)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))
