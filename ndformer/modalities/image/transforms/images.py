"""What happens to an image between disk and model: crops, flips, sizes, and packing it as a tensor.

Every transform is called as t(sample, rng). All chance comes from `rng`; only sample["image"], a PIL image,
changes. Sizes are one number for a square, or (height, width).
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image, ImageOps

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.ranges import Finite, Positive, Share, Side, SideOrNone, SomeShare, SomeShareSpan, Span
from ndformer.framework.registry import TRANSFORMS

Size = Side | tuple[Side, Side]

RGB_MEAN, RGB_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, the field's habit for any RGB image
FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def height_width(size: Size) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def shorter_side_to(image: Image.Image, length: int, resample: Image.Resampling) -> Image.Image:
    """The same picture with its shorter side `length` long; the longer one is rounded down, as everyone does."""
    width, height = image.size
    if width <= height:
        return image.resize((length, int(length * height / width)), resample)
    return image.resize((int(length * width / height), length), resample)


def crop(image: Image.Image, top: int, left: int, height: int, width: int) -> Image.Image:
    """A piece of an image; what lies outside of it is black."""
    return image.crop((left, top, left + width, top + height))


def centre_crop(image: Image.Image, height: int, width: int) -> Image.Image:
    return crop(image, round((image.height - height) / 2), round((image.width - width) / 2), height, width)


@TRANSFORMS.register_module()
class Resize:
    """To (height, width), or, with one number, the shorter side to it."""

    def __init__(self, size: Size, interpolation: str = "bilinear") -> None:
        self.size, self.resample = size, FILTERS[interpolation]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image = sample["image"]
        if isinstance(self.size, int):
            return sample | dict(image=shorter_side_to(image, self.size, self.resample))
        height, width = self.size
        return sample | dict(image=image.resize((width, height), self.resample))


@TRANSFORMS.register_module()
class CenterCrop:
    def __init__(self, size: Size) -> None:
        self.size = height_width(size)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return sample | dict(image=centre_crop(sample["image"], *self.size))


@TRANSFORMS.register_module()
class EvalCrop:
    """How classifiers are tested: the image's middle, `share` of its shorter side, at `size`.

    For 224: shorter side to 256, then the middle 224 x 224.
    """

    def __init__(self, size: Size = 224, share: SomeShare = 224 / 256, interpolation: str = "bilinear") -> None:
        self.size, self.share, self.resample = height_width(size), share, FILTERS[interpolation]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        height, width = self.size
        image = sample["image"]
        if height == width:
            image = shorter_side_to(image, round(height / self.share), self.resample)
        else:  # the same for a frame that is not square
            scale = max(height / image.height, width / image.width) / self.share
            image = image.resize((round(image.width * scale), round(image.height * scale)), self.resample)
        return sample | dict(image=centre_crop(image, height, width))


@TRANSFORMS.register_module()
class RandomCrop:
    """A random piece of the image after `padding` black pixels were put on each side."""

    def __init__(self, size: Size, padding: SideOrNone = 0) -> None:
        self.size, self.padding = height_width(size), padding

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image, (height, width), pad = sample["image"], self.size, self.padding
        room = (image.height + 2 * pad - height, image.width + 2 * pad - width)
        if min(room) < 0:
            raise DataError(
                f"RandomCrop wants {height} x {width} pixels, but {sample.get('path', 'the image')} has "
                f"{image.height} x {image.width} and {pad} of padding: put a Resize before it"
            )
        top, left = (int(rng.integers(r + 1)) - pad for r in room)
        return sample | dict(image=crop(image, top, left, height, width))


@TRANSFORMS.register_module()
class RandomResizedCrop:
    """A random piece, `scale` of the area and with a width / height in `ratio` (log-uniform), at `size`."""

    def __init__(
        self,
        size: Size = 224,
        scale: SomeShareSpan = (0.08, 1.0),
        ratio: Span = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ) -> None:
        self.size, self.scale, self.ratio, self.resample = height_width(size), scale, ratio, FILTERS[interpolation]

    def box(self, height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """(top, left, height, width) of a piece of an image."""
        for _ in range(10):
            area = height * width * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
        # No luck with a very long image: the largest middle piece with a ratio that is allowed.
        w, h = width, height
        if width / height < self.ratio[0]:
            h = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(height * self.ratio[1])
        return (height - h) // 2, (width - w) // 2, h, w

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image, (height, width) = sample["image"], self.size
        piece = crop(image, *self.box(image.height, image.width, rng))
        return sample | dict(image=piece.resize((width, height), self.resample))


@TRANSFORMS.register_module()
class Flip:
    """Left and right change places, with probability `p`."""

    def __init__(self, p: Share = 0.5) -> None:
        self.p = p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return sample | dict(image=ImageOps.mirror(sample["image"])) if rng.random() < self.p else sample


@TRANSFORMS.register_module()
class PackImage(Pack):
    """The last one: a normalised float32 tensor (C, H, W) for the model, and all that is not an image beside it.

    `mean` and `std` are of values in 0..1, one per channel; ImageNet's for RGB and 0.5 for grey where not given.
    """

    of = "image"

    def __init__(self, mean: Sequence[Finite] | None = None, std: Sequence[Positive] | None = None) -> None:
        self.mean, self.std = mean, std

    def statistics(self, channels: int) -> tuple[np.ndarray, np.ndarray]:
        rgb = channels == 3
        mean, std = self.mean or (RGB_MEAN if rgb else (0.5,)), self.std or (RGB_STD if rgb else (0.5,))
        if len(mean) != channels or len(std) != channels:
            raise DataError(
                f"PackImage has {len(mean)} means and {len(std)} deviations for an image of {channels} channels: "
                "give one of each per channel"
            )
        return np.array(mean, np.float32), np.array(std, np.float32)

    def unpack(self, packed: torch.Tensor) -> Image.Image:
        """The picture that a tensor (C, H, W) was made from."""
        values = packed.numpy().transpose(1, 2, 0)
        mean, std = self.statistics(values.shape[2])
        pixels = ((values * std + mean).clip(0, 1) * 255).round().astype(np.uint8)
        return Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """(H, W, 3) uint8: the image of a sample, packed or not yet, pixel by pixel."""
        image = self.unpack(sample["inputs"]["image"]) if "inputs" in sample else sample["image"]
        return np.asarray(image.convert("RGB"))

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        pixels = np.asarray(sample["image"])
        pixels = pixels.reshape(*pixels.shape[:2], -1)  # (H, W, C), grey too
        mean, std = self.statistics(pixels.shape[2])
        values = pixels * (1 / (255 * std)) - mean / std  # float32
        image = torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))
        return dict(inputs=dict(image=image), data_sample={k: v for k, v in sample.items() if k != "image"})
