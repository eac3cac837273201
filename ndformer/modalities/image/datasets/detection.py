"""Images with boxes: what a detection sample is, whatever files it comes from.

A sample has its image; `image_id`, `path` and `size` (height, width) of the image on disk; `boxes` (G, 4), x1 y1 x2 y2
in pixels of the image as transforms have made it, and `labels` (G,), to train with; `frame` (scale x, scale y, offset
x, offset y), which takes pixels back to the image on disk; and the `truth`, which no transform touches.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.errors import DataError
from ndformer.framework.registry.ranges import Share
from ndformer.modalities.image.formats.files import open_image
from ndformer.modalities.image.transforms.box_augment import mosaic
from ndformer.modalities.image.transforms.boxes import inside

LEAST = 1e-3  # pixels; what is thinner is a slip of the pen


@dataclass(frozen=True, eq=False)
class Scene:
    """One image and what its annotation says, boxes as they stand there."""

    path: Path
    image_id: Any
    boxes: np.ndarray  # (G, 4) float64, x1 y1 x2 y2
    labels: np.ndarray  # (G,) int64
    area: np.ndarray = field(default_factory=lambda: np.empty(0))  # (G,) of objects, where it is not that of
    # their boxes; infinite of those that nobody is asked for
    crowd: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))  # (G,)
    size: tuple[int, int] | None = None  # width and height of the image, where the annotation says them


def size_told(width: Any, height: Any) -> tuple[int, int] | None:
    """Width and height as an annotation says them, None where it does not: 0 and -1 are what programs fill in."""
    try:
        size = int(float(width)), int(float(height))
    except (TypeError, ValueError, OverflowError):
        return None
    return size if min(size) > 0 else None


class DetectionDataset(Dataset):
    """Extend it with `on_disk` and `scenes`. Crowds, what nobody is asked for, and boxes with nothing inside the image
    are left out of training.

    `mosaic`: the share of training samples that are four images in one.
    """

    answer = "Boxes"

    def __init__(self, *args: Any, mosaic: Share = 0.0, **rest: Any) -> None:
        if not 0 <= mosaic <= 1:
            raise ValueError(f"mosaic is a share of the samples, 0 to 1, got {mosaic:g}")
        self.mosaic = mosaic
        super().__init__(*args, **rest)

    def scenes(self, split: str) -> list[Scene]:
        """All images of a split on disk, also those without objects. Sets `classes` and `categories`."""
        raise NotImplementedError

    def absent(self) -> list[str]:
        there = {label for scene in self.records for label in scene.labels.tolist()}
        return [name for label, name in enumerate(self.classes) if label not in there]

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        scenes = self.scenes(split)
        if split == "train" and not any(len(scene.labels) for scene in scenes):
            raise DataError(
                f"none of the {len(scenes)} training images under {self.data_root} has a box, so there is nothing to "
                "learn: look at their annotations"
            )
        return scenes, np.zeros(len(scenes), dtype=np.int64)  # a hold-out takes every tenth image

    def sample(self, epoch: int, i: int) -> Sample:
        rng = np.random.default_rng((self.seed, epoch, i, 1))
        if self.split != "train" or rng.random() >= self.mosaic:
            return super().sample(epoch, i)
        others = [self.decoded(j) for j in rng.integers(len(self), size=3).tolist()]
        return self.changed(mosaic([self.decoded(i), *others], rng) | dict(index=i), rng)

    def read(self, record: Any) -> Sample:
        scene: Scene = record
        image = open_image(scene.path, size=scene.size)
        if scene.size not in (None, image.size):
            told, own = (" x ".join(map(str, size)) for size in (scene.size, image.size))
            raise DataError(
                f"{scene.path} has {own} pixels, and its annotation is of a picture of {told}, so its boxes may be "
                "elsewhere: put the picture there that was annotated, or mend its size in the annotation"
            )
        crowd = scene.crowd if len(scene.crowd) else np.zeros(len(scene.labels), dtype=bool)
        area = scene.area if len(scene.area) else (scene.boxes[:, 2:] - scene.boxes[:, :2]).prod(1)
        learnt = ~(crowd | np.isinf(area))
        return dict(
            image=image,
            path=str(scene.path),
            image_id=scene.image_id,
            size=(image.height, image.width),
            frame=np.array([1.0, 1.0, 0.0, 0.0]),
            truth=dict(boxes=scene.boxes, labels=scene.labels, area=area, crowd=crowd),
            **inside(scene.boxes[learnt], scene.labels[learnt], *image.size, least=LEAST),
        )
