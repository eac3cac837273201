"""Transforms of images: crops, flips, resizing, and packing as a tensor.

A transform is called as t(sample, rng). All randomness comes from `rng`, and only sample["image"], a PIL image,
changes, so samples with boxes or a mask are refused (boxes.py has their transforms). Sizes are one number for a square,
or (height, width).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Finite, Positive, Share, Side, SideOrNone, SomeShare, SomeShareSpan, Span

Size = Side | tuple[Side, Side]

RGB_MEAN, RGB_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, commonly used for any RGB image
FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
SUPPORT = 2  # pixels on each side that the widest of these filters reads
MAX_RESIZED = 2**24  # pixels up to which an image is resized before it is cropped; ordinary photos have far fewer
VALUE = 8  # bytes that packing needs per value


def height_width(size: Size) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def shorter_side_to(image: Image.Image, length: int) -> tuple[int, int]:
    """Return the width and height with the shorter side `length` long; the longer one is rounded down (torchvision)."""
    width, height = image.size
    return (length, int(length * height / width)) if width <= height else (int(length * width / height), length)


def resized(image: Image.Image, size: tuple[int, int], resample: Image.Resampling, path: Any = None) -> Image.Image:
    """Return an image at `size` (width, height); a DataError where the result would have too many pixels."""
    foreign.check_pixels(path or "an image", *size)
    return image.resize(size, resample)


def resized_piece(
    image: Image.Image, size: tuple[int, int], left: int, top: int, height: int, width: int, resample: Image.Resampling
) -> Image.Image:
    """Resize an image to `size` (width, height) and return a piece of it; the area outside of the image is black.

    Where the resized image would be large, only the pixels below the piece are resized, so that images with extreme
    sides take no more time and memory than others.
    """
    if size[0] * size[1] <= MAX_RESIZED:
        return crop(image.resize(size, resample), top, left, height, width)
    frame = Image.new(image.mode, (width, height))
    x0, y0 = max(0, left), max(0, top)
    x1, y1 = min(size[0], left + width), min(size[1], top + height)
    if x0 < x1 and y0 < y1:
        x, y = _source(x0, x1, image.width, size[0]), _source(y0, y1, image.height, size[1])
        part = image.crop((x[0], y[0], x[1], y[1]))
        frame.paste(part.resize((x1 - x0, y1 - y0), resample, (x[2], y[2], x[3], y[3])), (x0 - left, y0 - top))
    return frame


def _source(low: int, high: int, old: int, new: int) -> tuple[int, int, float, float]:
    """Return the source pixels of target pixels `low` to `high` along a side that is resized from `old` to `new`.

    They are: the first and last source pixel to crop, and the start and end of the target range within that crop.
    """
    scale = old / new
    margin = math.ceil(SUPPORT * max(1.0, scale)) + 1
    first, last = max(0, math.floor(low * scale) - margin), min(old, math.ceil(high * scale) + margin)
    return first, last, low * scale - first, min(high * scale - first, last - first)


def crop(image: Image.Image, top: int, left: int, height: int, width: int) -> Image.Image:
    """Crop an image; the area outside of it is black."""
    return image.crop((left, top, left + width, top + height))


def image_alone(sample: Sample, transform: object) -> Image.Image:
    """Return the image of a sample; a DataError if it has boxes or a mask, which the transform would leave in place."""
    label = "a mask" if "mask" in sample else "boxes" if len(sample.get("boxes", ())) else ""
    if label:
        raise DataError(
            f"{type(transform).__name__} changes the image alone, but {sample.get('path', 'the sample')} has "
            f"{label}. Use Resize, Letterbox, LargeScaleJitter, KeepAspect, FlipBoxes or RandAugmentBoxes"
        )
    return sample["image"]


def center(size: tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """Return left and top of the center crop of an image of `size` (width, height)."""
    return round((size[0] - width) / 2), round((size[1] - height) / 2)


@TRANSFORMS.register_module()
class CenterCrop:
    """Crop the center of the image."""

    def __init__(self, size: Size) -> None:
        self.size = height_width(size)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image, (height, width) = image_alone(sample, self), self.size
        left, top = center(image.size, height, width)
        return sample | dict(image=crop(image, top, left, height, width))


@TRANSFORMS.register_module()
class EvalCrop:
    """The standard test crop of classifiers: the center of the image, `share` of its shorter side, at `size`.

    For 224: shorter side to 256, then the center 224 x 224.
    """

    def __init__(self, size: Size = 224, share: SomeShare = 224 / 256, interpolation: str = "bilinear") -> None:
        self.size, self.share, self.resample = height_width(size), share, FILTERS[interpolation]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        height, width = self.size
        image = image_alone(sample, self)
        if height == width:
            size = shorter_side_to(image, round(height / self.share))
        else:  # the same for a size that is not square
            scale = max(height / image.height, width / image.width) / self.share
            size = round(image.width * scale), round(image.height * scale)
        left, top = center(size, height, width)
        return sample | dict(image=resized_piece(image, size, left, top, height, width, self.resample))


@TRANSFORMS.register_module()
class RandomCrop:
    """Crop a random piece of the image after padding each side with `padding` black pixels."""

    def __init__(self, size: Size, padding: SideOrNone = 0) -> None:
        self.size, self.padding = height_width(size), padding

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image, (height, width), pad = image_alone(sample, self), self.size, self.padding
        room = (image.height + 2 * pad - height, image.width + 2 * pad - width)
        if min(room) < 0:
            raise DataError(
                f"RandomCrop needs at least {height} x {width} pixels, but {sample.get('path', 'the image')} has "
                f"{image.height} x {image.width} with a padding of {pad}. Put a Resize before it"
            )
        top, left = (int(rng.integers(r + 1)) - pad for r in room)
        return sample | dict(image=crop(image, top, left, height, width))


@TRANSFORMS.register_module()
class RandomResizedCrop:
    """Crop a random piece with `scale` of the area and a log-uniform `ratio` of width to height, and resize it."""

    def __init__(
        self,
        size: Size = 224,
        scale: SomeShareSpan = (0.08, 1.0),
        ratio: Span = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ) -> None:
        self.size, self.scale, self.ratio, self.resample = height_width(size), scale, ratio, FILTERS[interpolation]

    def box(self, height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """Return a random (top, left, height, width) in an image."""
        for _ in range(10):
            area = height * width * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
        # Ten tries failed, as happens for very long images: take the largest center piece with an allowed ratio.
        w, h = width, height
        if width / height < self.ratio[0]:
            h = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(height * self.ratio[1])
        return (height - h) // 2, (width - w) // 2, h, w

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image, (height, width) = image_alone(sample, self), self.size
        piece = crop(image, *self.box(image.height, image.width, rng))
        return sample | dict(image=resized(piece, (width, height), self.resample, sample.get("path")))


@TRANSFORMS.register_module()
class Flip:
    """Flip left and right with probability `p`."""

    def __init__(self, p: Share = 0.5) -> None:
        self.p = p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image = image_alone(sample, self)
        return sample | dict(image=ImageOps.mirror(image)) if rng.random() < self.p else sample


@TRANSFORMS.register_module()
class PackImage(Pack):
    """Pack the image as a normalized float32 tensor (C, H, W); the other values become its data sample.

    This is the last transform. `mean` and `std` are for values in 0..1, one per channel. Defaults: ImageNet's for RGB,
    0.5 for gray.
    """

    input_name = "image"

    def __init__(self, mean: Sequence[Finite] | None = None, std: Sequence[Positive] | None = None) -> None:
        self.mean, self.std = mean, std

    def statistics(self, channels: int) -> tuple[np.ndarray, np.ndarray]:
        rgb = channels == 3
        mean, std = self.mean or (RGB_MEAN if rgb else (0.5,)), self.std or (RGB_STD if rgb else (0.5,))
        if len(mean) != channels or len(std) != channels:
            raise DataError(
                f"PackImage expects a mean and a std for each of {channels} channels, got {len(mean)} and {len(std)}. "
                "Set mean and std to one number per channel"
            )
        return np.array(mean, np.float32), np.array(std, np.float32)

    def unpack(self, packed: torch.Tensor) -> Image.Image:
        """Return the image that a tensor (C, H, W) was packed from."""
        values = packed.numpy().transpose(1, 2, 0)
        mean, std = self.statistics(values.shape[2])
        pixels = ((values * std + mean).clip(0, 1) * 255).round().astype(np.uint8)
        return Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """Return the image of a sample, packed or not, as (H, W, 3) uint8."""
        image = self.unpack(sample["inputs"]["image"]) if "inputs" in sample else sample["image"]
        return np.asarray(image.convert("RGB"))

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        pixels = np.asarray(sample["image"])
        pixels = pixels.reshape(*pixels.shape[:2], -1)  # (H, W, C), gray too
        mean, std = self.statistics(pixels.shape[2])
        foreign.check_size(sample.get("path", "an image"), VALUE * pixels.size)
        values = pixels * (1 / (255 * std)) - mean / std  # float32
        image = torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))
        return dict(inputs=dict(image=image), data_sample={k: v for k, v in sample.items() if k != "image"})
