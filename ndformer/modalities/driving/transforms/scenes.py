"""Transforms of clouds, boxes and camera images of driving, with their calibrations.

UniTR's recipe is MoveScene(flip=0.5, degrees=45, scale=(0.9, 1.1), shift=0.5), KeepRange(), CameraImages((256, 704),
scale=(0.38, 0.55), degrees=5.4, flip=0.5); in evaluation KeepRange() and CameraImages((256, 704)).
"""

import numpy as np
from PIL import Image

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Degrees, Finite, NonNegative, Share, Span
from ndformer.modalities.driving.formats.poses import about_z
from ndformer.modalities.image.transforms.images import Size, height_width, resized_piece


@TRANSFORMS.register_module()
class MoveScene:
    """Augment the cloud and boxes: mirror, rotate, scale and translate; images stay, and calibrations are updated.

    x and y are each mirrored with probability `flip`, the rotation is up to `degrees` in both directions, the factor
    within `scale`, and the translation has a standard deviation of `shift` meters on each axis.
    """

    def __init__(
        self, flip: Share = 0.5, degrees: Degrees = 45.0, scale: Span = (0.9, 1.1), shift: NonNegative = 0.5
    ) -> None:
        self.flip, self.degrees, self.scale, self.shift = flip, degrees, scale, shift

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        mirror = np.where(rng.random(2) < self.flip, -1.0, 1.0)
        turn = np.deg2rad(rng.uniform(-self.degrees, self.degrees))
        factor, shift = rng.uniform(*self.scale), rng.normal(0, self.shift, 3)
        matrix = np.eye(4)
        matrix[:3, :3] = factor * about_z(np.asarray(turn)) @ np.diag([*mirror, 1.0])
        matrix[:3, 3] = shift
        points = sample["points"].copy()
        points[:, :3] = points[:, :3].astype(np.float64) @ matrix[:3, :3].T + shift
        moved = {name: matrix @ sample[name] for name in ("camera_to_lidar", "cloud_transform")}
        moved |= dict(boxes=_transform_boxes(sample["boxes"], matrix, factor)) if "boxes" in sample else {}
        return sample | moved | dict(points=points)


def _transform_boxes(boxes: np.ndarray, matrix: np.ndarray, factor: float) -> np.ndarray:
    """Transform boxes (K, 9) by a similarity (4, 4)."""
    boxes = boxes.astype(np.float64)
    ahead = np.column_stack([np.cos(boxes[:, 6]), np.sin(boxes[:, 6])]) @ matrix[:2, :2].T
    place = boxes[:, :3] @ matrix[:3, :3].T + matrix[:3, 3]
    speed = boxes[:, 7:9] @ matrix[:2, :2].T
    turned = np.arctan2(ahead[:, 1], ahead[:, 0])
    return np.column_stack([place, factor * boxes[:, 3:6], turned, speed]).astype(np.float32)


@TRANSFORMS.register_module()
class KeepRange:
    """Keep points, and boxes by their centers, from `low` to `high` in x, y, z."""

    def __init__(
        self,
        low: tuple[Finite, Finite, Finite] = (-54.0, -54.0, -5.0),
        high: tuple[Finite, Finite, Finite] = (54.0, 54.0, 3.0),
    ) -> None:
        self.low, self.high = np.array(low), np.array(high)
        if not (self.low < self.high).all():
            raise ValueError(f"KeepRange needs low below high on each axis, got {tuple(low)} and {tuple(high)}")

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        within = lambda rows: ((rows[:, :3] >= self.low) & (rows[:, :3] < self.high)).all(1)
        selected: Sample = dict(points=sample["points"][within(sample["points"])])
        if "boxes" in sample:
            inside = within(sample["boxes"])
            selected |= {name: sample[name][inside] for name in ("boxes", "classes", "attributes")}
        return sample | selected


@TRANSFORMS.register_module()
class CameraImages:
    """Resize and crop each camera image to `size` (height, width), with random augmentation.

    Images are scaled by a factor within `scale` and cropped at the bottom, horizontally at random if the factor is
    random; mirrored with probability `flip`, and rotated by up to `degrees`. Areas outside of an image, and missing
    images, are black.
    """

    def __init__(self, size: Size, scale: Span = (0.48, 0.48), degrees: Degrees = 0.0, flip: Share = 0.0) -> None:
        self.size, self.scale, self.degrees, self.flip = height_width(size), scale, degrees, flip

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        changed = [self._transform(image, rng) for image in sample["images"]]
        changes = np.stack([change for _, change in changed]) if changed else np.zeros((0, 3, 3))
        lenses = {name: changes @ sample[name] for name in ("intrinsics", "image_transform")}
        return sample | lenses | dict(images=[image for image, _ in changed])

    def _transform(self, image: Image.Image | None, rng: np.random.Generator) -> tuple[Image.Image, np.ndarray]:
        """Return the new image, and the transform (3, 3) from old pixels to new ones."""
        height, width = self.size
        factor, offset = rng.uniform(*self.scale), rng.random()
        mirrored, turn = rng.random() < self.flip, rng.uniform(-1, 1)
        if image is None:
            return Image.new("RGB", (width, height)), np.eye(3)
        full = max(1, round(image.width * factor)), max(1, round(image.height * factor))
        room = max(0, full[0] - width)
        left = round(offset * room) if self.scale[0] < self.scale[1] else room // 2
        top = full[1] - height
        change = np.diag([full[0] / image.width, full[1] / image.height, 1.0])
        change[:2, 2] = -left, -top
        image = resized_piece(image, full, left, top, height, width, Image.Resampling.BILINEAR)
        if mirrored:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            change = np.array([[-1.0, 0, width], [0, 1, 0], [0, 0, 1]]) @ change
        if self.degrees:
            middle = np.array([width / 2, height / 2])
            around = about_z(np.asarray(np.deg2rad(turn * self.degrees)))
            around[:2, 2] = middle - around[:2, :2] @ middle
            back = np.linalg.inv(around)[:2].ravel().tolist()
            image = image.transform((width, height), Image.Transform.AFFINE, back, Image.Resampling.BILINEAR)
            change = around @ change
        return image, change
