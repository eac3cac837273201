"""Changes of an image that its boxes or its mask go along with: sizes, jitter, flips, and packing both."""

from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Share, Span
from ndformer.modalities.image.transforms.images import RGB_MEAN, PackImage, Size, height_width, resized

IGNORED = 255  # in a mask: nobody knows what is there
FILL = tuple(round(255 * mean) for mean in RGB_MEAN)  # about 0 once it is normalised


def inside(boxes: np.ndarray, labels: np.ndarray, width: int, height: int, least: float = 1.0) -> dict[str, Any]:
    """Boxes cut off at the borders of an image, and their labels, without those of which less than `least` is left."""
    boxes = boxes.clip(0, [width, height, width, height])
    keep = (boxes[:, 2:] - boxes[:, :2] >= least).all(1)
    return dict(boxes=boxes[keep], labels=labels[keep])


def framed(sample: Sample) -> Sample:
    """A sample as detection has it. A file that nobody annotated has no objects, and stands as it is on disk."""
    if "frame" in sample:
        return sample
    image = sample["image"]
    empty = dict(boxes=np.empty((0, 4)), labels=np.empty(0, np.int64))
    return sample | empty | dict(size=(image.height, image.width), frame=np.array([1.0, 1.0, 0.0, 0.0]))


def moved(sample: Sample, image: Image.Image, scale: tuple[float, float], offset: tuple[float, float]) -> Sample:
    """The sample as `image`, whose pixels are old * scale + offset."""
    sample = framed(sample)
    to, by = np.array([*scale, *scale]), np.array([*offset, *offset])
    old = sample["frame"]
    frame = np.concatenate([old[:2] / scale, old[2:] - old[:2] * offset / scale])
    kept = inside(sample["boxes"] * to + by, sample["labels"], *image.size)
    return sample | kept | dict(image=image, frame=frame)


def scaled(image: Image.Image, scale: float) -> tuple[int, int]:
    """Width and height of an image times a number, a pixel at least."""
    width, height = image.size
    return max(1, round(width * scale)), max(1, round(height * scale))


def piece(image: Image.Image, left: int, top: int, height: int, width: int, fill: Any = FILL) -> Image.Image:
    """A piece of an image; what lies outside of it is grey."""
    frame = Image.new(image.mode, (width, height), fill)
    frame.paste(image, (-left, -top))
    return frame


def taken(sample: Sample, size: tuple[int, int], left: int, top: int, height: int, width: int) -> Sample:
    """A piece of the sample as it is at `size` (width, height): image, boxes and, if there, mask."""
    image = sample["image"]
    scale = (size[0] / image.width, size[1] / image.height)
    new = image if size == image.size else resized(image, size, Image.Resampling.BILINEAR, sample.get("path"))
    out = moved(sample, piece(new, left, top, height, width), scale, (-left, -top))
    if "mask" in sample:
        mask = sample["mask"].resize(size, Image.Resampling.NEAREST)
        out["mask"] = piece(mask, left, top, height, width, IGNORED)
    return out


@TRANSFORMS.register_module()
class Letterbox:
    """As large as fits into `size` without a change of shape; grey to the right and below."""

    def __init__(self, size: Size) -> None:
        self.size = height_width(size)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        height, width = self.size
        image = sample["image"]
        return taken(sample, scaled(image, min(height / image.height, width / image.width)), 0, 0, height, width)


@TRANSFORMS.register_module()
class LargeScaleJitter:
    """Large scale jitter: as Letterbox, times a number of `scale`; of what is too large, a random piece (Ghiasi 2021).

    Objects of which less than a pixel is left are gone.
    """

    def __init__(self, size: Size, scale: Span = (0.1, 2.0)) -> None:
        self.size, self.scale = height_width(size), scale

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        height, width = self.size
        image = sample["image"]
        fit = min(height / image.height, width / image.width)
        new = scaled(image, fit * rng.uniform(*self.scale))
        left, top = (int(rng.integers(max(0, room) + 1)) for room in (new[0] - width, new[1] - height))
        return taken(sample, new, left, top, height, width)


@TRANSFORMS.register_module()
class FlipBoxes:
    """Left and right change places, with probability `p`."""

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
    """The last one: PackImage, and boxes and labels as tensors."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        packed = super().__call__(framed(sample), rng)
        found = packed["data_sample"]
        boxes = torch.from_numpy(found["boxes"].astype(np.float32).reshape(-1, 4))
        found |= dict(boxes=boxes, labels=torch.from_numpy(found["labels"].astype(np.int64)))
        return packed


@TRANSFORMS.register_module()
class PackMask(PackImage):
    """The last one: PackImage, and the mask as a tensor (H, W) of classes. What nobody knows is -1, as for points."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        sample = {name: value for name, value in framed(sample).items() if name not in ("boxes", "labels")}
        packed = super().__call__(sample, rng)
        if "mask" in sample:
            packed["data_sample"]["mask"] = torch.from_numpy(signed(sample["mask"]).astype(np.int64))
        if "truth" in sample:
            packed["data_sample"]["truth"] = signed(sample["truth"])
        return packed


def signed(mask: Any) -> np.ndarray:
    """Numbers of a mask, int16, -1 where nobody knows."""
    numbers = np.asarray(mask).astype(np.int16)
    return np.where(numbers == IGNORED, np.int16(-1), numbers)
