"""A mask beside its image, packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.transforms.boxes import IGNORED, framed
from ndformer.modalities.image.transforms.images import PackImage


@TRANSFORMS.register_module()
class PackMask(PackImage):
    """The last one: PackImage, and the mask as a tensor (H, W) of classes. What nobody knows is -1, as for points."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        sample = {name: value for name, value in framed(sample).items() if name not in ("boxes", "labels")}
        packed = super().__call__(sample, rng)
        if "mask" in sample:
            packed["data_sample"]["mask"] = torch.from_numpy(_signed(sample["mask"]).astype(np.int64))
        if "truth" in sample:
            packed["data_sample"]["truth"] = _signed(sample["truth"])
        return packed


def _signed(mask: Any) -> np.ndarray:
    numbers = np.asarray(mask).astype(np.int16)
    return np.where(numbers == IGNORED, np.int16(-1), numbers)
