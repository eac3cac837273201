"""RandAugment (Cubuk et al. 2020) in its widely used form: 14 operations, magnitudes in bins.

Each operation is fn(image, value) on a PIL image. The value at bin 0 changes nothing, and it grows with the bin.
Uncovered pixels are black, and moved pixels are sampled by nearest neighbor.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Few, FewOrNone
from ndformer.modalities.image.transforms.images import image_alone


def affine(image: Image.Image, *matrix: float) -> Image.Image:
    """Transform an image so that pixel (x, y) of the result comes from (a x + b y + c, d x + e y + f)."""
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)


@dataclass(frozen=True)
class Operation:
    """An augmentation and its value at each magnitude."""

    apply: Callable[[Image.Image, float], Image.Image]
    value: Callable[[float, tuple[int, int]], float] = lambda share, size: (
        0.0
    )  # from the share of the largest magnitude
    signed: bool = False  # the value is negated at random


def up_to(max_value: float) -> Callable[[float, tuple[int, int]], float]:
    return lambda share, size: max_value * share


def enhance(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> Operation:
    return Operation(lambda image, value: kind(image).enhance(1 + value), up_to(0.9), signed=True)


OPERATIONS: dict[str, Operation] = {
    "Identity": Operation(lambda image, _: image),
    "ShearX": Operation(lambda image, v: affine(image, 1, v, 0, 0, 1, 0), up_to(0.3), signed=True),
    "ShearY": Operation(lambda image, v: affine(image, 1, 0, 0, v, 1, 0), up_to(0.3), signed=True),
    "TranslateX": Operation(  # whole pixels, up to 150 of 331: the image size of AutoAugment
        lambda image, v: affine(image, 1, 0, -int(v), 0, 1, 0),
        lambda share, size: 150 / 331 * size[0] * share,
        signed=True,
    ),
    "TranslateY": Operation(
        lambda image, v: affine(image, 1, 0, 0, 0, 1, -int(v)),
        lambda share, size: 150 / 331 * size[1] * share,
        signed=True,
    ),
    "Rotate": Operation(lambda image, v: image.rotate(v, Image.Resampling.NEAREST), up_to(30), signed=True),
    "Brightness": enhance(ImageEnhance.Brightness),
    "Color": enhance(ImageEnhance.Color),
    "Contrast": enhance(ImageEnhance.Contrast),
    "Sharpness": enhance(ImageEnhance.Sharpness),
    "Posterize": Operation(lambda image, v: ImageOps.posterize(image, int(v)), lambda share, _: 8 - round(4 * share)),
    "Solarize": Operation(lambda image, v: ImageOps.solarize(image, math.ceil(v)), lambda share, _: 255 * (1 - share)),
    "AutoContrast": Operation(lambda image, _: ImageOps.autocontrast(image)),
    "Equalize": Operation(lambda image, _: ImageOps.equalize(image)),
}


@TRANSFORMS.register_module()
class RandAugment:
    """Apply `operations` of the 14, one after the other, each at bin `magnitude` of 0..bins-1."""

    def __init__(self, operations: FewOrNone = 2, magnitude: FewOrNone = 9, bins: Few = 31) -> None:
        if not 0 <= magnitude < bins:
            raise ValueError(f"RandAugment's magnitude is one of its bins, 0 to {bins - 1}, got {magnitude}")
        self.operations, self.share = operations, magnitude / (bins - 1)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image = image_alone(sample, self)
        names = list(OPERATIONS)
        for _ in range(self.operations):
            operation = OPERATIONS[names[rng.integers(len(names))]]
            value = operation.value(self.share, image.size)
            if operation.signed and rng.random() < 0.5:
                value = -value
            image = operation.apply(image, value)
        return sample | dict(image=image)
