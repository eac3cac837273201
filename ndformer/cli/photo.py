"""The image of a sample at a higher resolution than the model's input, for pictures of attention."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.samples import find_pack
from ndformer.framework.registry import TRANSFORMS

SIZES = ("size", "longest", "multiple_of")  # options of transforms in pixels
MAX_SIDE = 448  # pixels of the shorter side
MAX_DIFFERENCE = 12.0  # of 255, the average difference between two images of the same view


def with_photo(sample: Sample, raw: Sample, transforms: Sequence[Any]) -> Sample:
    """Add `photo`, the sample with a larger image, if the config's `transforms` can make one of the same view.

    Every SIZES option of the transforms is multiplied by the same whole number, so that patches cover the same parts.
    """
    if list(sample.get("inputs", ())) != ["image"] or "image" not in raw:
        return sample
    side, large = min(sample["inputs"]["image"].shape[-2:]), min(raw["image"].size)
    times = min(MAX_SIDE, large) // side
    if times < 2:
        return sample
    photo, rng = raw, np.random.default_rng(0)
    try:
        for transform in transforms:
            photo = TRANSFORMS.create(_enlarge(transform, times))(photo, rng)
    except (DataError, ValueError):  # a transform that refuses this size
        return sample
    return sample | dict(photo=photo) if _same_view(sample, photo, times) else sample


def _enlarge(transform: dict[str, Any], times: int) -> dict[str, Any]:
    options = inspect.signature(TRANSFORMS.get(transform["type"])).parameters
    larger = {}
    for name in (name for name in SIZES if name in options):
        old = transform.get(name, options[name].default)
        larger[name] = times * old if isinstance(old, int) else tuple(times * side for side in old)
    return transform | larger


def _same_view(sample: Sample, photo: Sample, times: int) -> bool:
    pack = find_pack("image", ())
    if pack is None or "inputs" not in photo:
        return False
    small, large = (pack.picture(each, 0).astype(float) for each in (sample, photo))
    height, width, channels = small.shape
    if large.shape != (times * height, times * width, channels):
        return False
    return (
        float(np.abs(large.reshape(height, times, width, times, channels).mean((1, 3)) - small).mean()) < MAX_DIFFERENCE
    )
