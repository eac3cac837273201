"""Augmentations for detection: colors, translation and mosaic; none that rotates or shears a box."""

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Sample, Transform
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import FewOrNone
from ndformer.modalities.image.transforms.boxes import FILL, framed, moved, resize_and_crop, scaled

STRENGTH, SHIFT, HUE = 0.32, 0.14, 0.16  # of the PaPE paper's recipe: shares of the range and of the image's sides
BYTES = 4  # per pixel in Pillow
BITS, BRIGHT = 7, 179  # solarize: the recipe's 178.5 inverts pixels from 179 on


def _enhance(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> Transform:
    def change(sample: Sample, rng: np.random.Generator) -> Sample:
        return sample | dict(image=kind(sample["image"]).enhance(1 + rng.uniform(-STRENGTH, STRENGTH)))

    return change


def _same(change: Callable[[Image.Image], Image.Image]) -> Transform:
    return lambda sample, rng: sample | dict(image=change(sample["image"]))


def _colors(sample: Sample, rng: np.random.Generator) -> Sample:
    """Change saturation and hue."""
    image = ImageEnhance.Color(sample["image"]).enhance(1 + rng.uniform(-STRENGTH, STRENGTH))
    hue, saturation, value = image.convert("HSV").split()
    turn = round(256 * rng.uniform(-HUE, HUE))
    turned = Image.fromarray((np.asarray(hue).astype(np.int16) + turn).astype(np.uint8))  # modulo a whole turn
    return sample | dict(image=Image.merge("HSV", (turned, saturation, value)).convert("RGB"))


def _translate(sample: Sample, rng: np.random.Generator) -> Sample:
    """Translate by whole pixels."""
    image = sample["image"]
    x, y = (round(side * rng.uniform(-SHIFT, SHIFT)) for side in image.size)
    return resize_and_crop(framed(sample), image.size, -x, -y, image.height, image.width)


OPERATIONS: dict[str, Transform] = {
    "Identity": lambda sample, rng: sample,
    "Translate": _translate,
    "Brightness": _enhance(ImageEnhance.Brightness),
    "Colors": _colors,
    "Contrast": _enhance(ImageEnhance.Contrast),
    "Sharpness": _enhance(ImageEnhance.Sharpness),
    "Posterize": _same(lambda image: ImageOps.posterize(image, BITS)),
    "Solarize": _same(lambda image: ImageOps.solarize(image, BRIGHT)),
    "AutoContrast": _same(ImageOps.autocontrast),
    "Equalize": _same(ImageOps.equalize),
}


@TRANSFORMS.register_module()
class RandAugmentBoxes:
    """RandAugment for detection: `operations` of the ten in the PaPE paper, one after the other, on RGB images."""

    def __init__(self, operations: FewOrNone = 2) -> None:
        self.operations = operations

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        sample, names = framed(sample), list(OPERATIONS)
        for _ in range(self.operations):
            sample = OPERATIONS[names[rng.integers(len(names))]](sample, rng)
        return sample


def mosaic(samples: Sequence[Sample], rng: np.random.Generator) -> Sample:
    """Combine four samples around a random point of a canvas of twice the size (Bochkovskiy 2020).

    Each image is scaled to the size of the first and cut off at the canvas. `frame` and `truth` remain those of the
    first: a mosaic is for training only.
    """
    first = samples[0]["image"]
    width, height = first.size
    foreign.check_size(samples[0].get("path", "an image"), BYTES * 4 * width * height)
    canvas = Image.new(first.mode, (2 * width, 2 * height), FILL)
    x, y = (round(side * rng.uniform(0.5, 1.5)) for side in (width, height))
    boxes, labels = [], []
    for k, sample in enumerate(samples):
        old = sample["image"]
        image = old.resize(scaled(old, min(height / old.height, width / old.width)), Image.Resampling.BILINEAR)
        scale = (image.width / old.width, image.height / old.height)
        left, top = x - image.width * (k % 2 == 0), y - image.height * (k < 2)
        canvas.paste(image, (left, top))
        boxes.append(sample["boxes"] * np.tile(scale, 2) + np.tile((left, top), 2))
        labels.append(sample["labels"])
    combined = samples[0] | dict(image=canvas, boxes=np.concatenate(boxes), labels=np.concatenate(labels))
    return moved(combined, canvas, (1, 1), (0, 0))
