"""Transforms of an image together with its boxes or its mask: resizing, jitter, flips, and packing."""

from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Share, Span
from ndformer.modalities.image.transforms.images import (
    FILTERS,
    RGB_MEAN,
    PackImage,
    Size,
    height_width,
    resized,
    shorter_side_to,
)

IGNORED = 255  # value of unlabeled pixels in a mask
FILL, GRAY = tuple(round(255 * mean) for mean in RGB_MEAN), 128  # about 0 after normalization


def clip_boxes(boxes: np.ndarray, labels: np.ndarray, width: int, height: int, min_side: float = 1.0) -> dict[str, Any]:
    """Clip boxes to the image and drop those with a side shorter than `min_side`, together with their labels."""
    boxes = boxes.clip(0, [width, height, width, height])
    keep_mask = (boxes[:, 2:] - boxes[:, :2] >= min_side).all(1)
    return dict(boxes=boxes[keep_mask], labels=labels[keep_mask])


def framed(sample: Sample) -> Sample:
    """Return the sample with boxes, size and frame; a sample without annotation has no boxes and the identity frame."""
    image = sample["image"]
    empty = dict(boxes=np.empty((0, 4)), labels=np.empty(0, np.int64))
    return empty | dict(size=(image.height, image.width), frame=np.array([1.0, 1.0, 0.0, 0.0])) | sample


def moved(sample: Sample, image: Image.Image, scale: tuple[float, float], offset: tuple[float, float]) -> Sample:
    """Return the sample with a new image whose pixels are old * scale + offset, and its boxes moved alike."""
    sample = framed(sample)
    to, by = np.array([*scale, *scale]), np.array([*offset, *offset])
    old = sample["frame"]
    frame = np.concatenate([old[:2] / scale, old[2:] - old[:2] * offset / scale])
    clipped = clip_boxes(sample["boxes"] * to + by, sample["labels"], *image.size)
    return sample | clipped | dict(image=image, frame=frame)


def scaled(image: Image.Image, scale: float) -> tuple[int, int]:
    """Return width and height of an image times `scale`, at least one pixel each."""
    width, height = image.size
    return max(1, round(width * scale)), max(1, round(height * scale))


def piece(image: Image.Image, left: int, top: int, height: int, width: int, fill: Any = None) -> Image.Image:
    """Crop an image; the area outside of it is filled with `fill`, by default the mean color."""
    fill = (FILL if image.mode == "RGB" else GRAY) if fill is None else fill
    frame = Image.new(image.mode, (width, height), fill)
    frame.paste(image, (-left, -top))
    return frame


def resize_and_crop(
    sample: Sample,
    size: tuple[int, int],
    left: int,
    top: int,
    height: int,
    width: int,
    resample: Image.Resampling = Image.Resampling.BILINEAR,
) -> Sample:
    """Resize a sample to `size` (width, height) and crop it: the image, its boxes and its mask."""
    image = sample["image"]
    scale = (size[0] / image.width, size[1] / image.height)
    new = image if size == image.size else resized(image, size, resample, sample.get("path"))
    out = moved(sample, piece(new, left, top, height, width), scale, (-left, -top))
    if "mask" in sample:
        mask = sample["mask"].resize(size, Image.Resampling.NEAREST)
        out["mask"] = piece(mask, left, top, height, width, IGNORED)
    return out


@TRANSFORMS.register_module()
class Resize:
    """Resize to (height, width), or, with one number, the shorter side to it; boxes and mask, too."""

    def __init__(self, size: Size, interpolation: str = "bilinear") -> None:
        self.size, self.resample = size, FILTERS[interpolation]

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        image = sample["image"]
        size = shorter_side_to(image, self.size) if isinstance(self.size, int) else (self.size[1], self.size[0])
        if "boxes" in sample or "mask" in sample:
            return resize_and_crop(sample, size, 0, 0, size[1], size[0], self.resample)
        new = resized(image, size, self.resample, sample.get("path"))
        out = moved(sample, new, (size[0] / image.width, size[1] / image.height), (0, 0))
        return {name: out[name] for name in (*sample, "size", "frame")}  # of a file: its boxes will be predicted


@TRANSFORMS.register_module()
class Letterbox:
    """Resize to the largest size that fits into `size` without distortion, and pad with gray to the right and below."""

    def __init__(self, size: Size) -> None:
        self.size = height_width(size)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        height, width = self.size
        image = sample["image"]
        return resize_and_crop(
            sample, scaled(image, min(height / image.height, width / image.width)), 0, 0, height, width
        )


@TRANSFORMS.register_module()
class LargeScaleJitter:
    """Large scale jitter (Ghiasi 2021): Letterbox with a random factor from `scale`; images too large are cropped.

    Objects with less than a pixel left are dropped.
    """

    def __init__(self, size: Size, scale: Span = (0.1, 2.0)) -> None:
        self.size, self.scale = height_width(size), scale

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        height, width = self.size
        image = sample["image"]
        fit = min(height / image.height, width / image.width)
        new = scaled(image, fit * rng.uniform(*self.scale))
        left, top = (int(rng.integers(max(0, room) + 1)) for room in (new[0] - width, new[1] - height))
        return resize_and_crop(sample, new, left, top, height, width)


@TRANSFORMS.register_module()
class FlipBoxes:
    """Flip image, mask and boxes horizontally with probability `p`."""

    def __init__(self, p: Share = 0.5) -> None:
        self.p = p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p:
            return sample
        sample = framed(sample)
        width = sample["image"].width
        boxes = sample["boxes"].copy()
        boxes[:, [0, 2]] = width - boxes[:, [2, 0]]
        scale_x, scale_y, x, y = sample["frame"]
        frame = np.array([-scale_x, scale_y, x + scale_x * width, y])
        mirrored = {name: ImageOps.mirror(sample[name]) for name in ("image", "mask") if name in sample}
        return sample | mirrored | dict(boxes=boxes, frame=frame)


@TRANSFORMS.register_module()
class PackBoxes(PackImage):
    """Pack image, boxes and labels as tensors (the last transform)."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        packed = super().__call__(framed(sample), rng)
        data_sample = packed["data_sample"]
        boxes = torch.from_numpy(data_sample["boxes"].astype(np.float32).reshape(-1, 4))
        data_sample |= dict(boxes=boxes, labels=torch.from_numpy(data_sample["labels"].astype(np.int64)))
        return packed


@TRANSFORMS.register_module()
class PackMask(PackImage):
    """Pack image and mask (H, W) as tensors (the last transform). Unlabeled pixels are -1, as for points."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        sample = {name: value for name, value in framed(sample).items() if name not in ("boxes", "labels")}
        packed = super().__call__(sample, rng)
        if "mask" in sample:
            packed["data_sample"]["mask"] = torch.from_numpy(signed(sample["mask"]).astype(np.int64))
        if "truth" in sample:
            packed["data_sample"]["truth"] = signed(sample["truth"])
        return packed


def signed(mask: Any) -> np.ndarray:
    """Return the class numbers of a mask as int16, -1 where unlabeled."""
    numbers = np.asarray(mask).astype(np.int16)
    return np.where(numbers == IGNORED, np.int16(-1), numbers)
