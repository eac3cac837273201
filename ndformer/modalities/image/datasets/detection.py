"""Base class of detection datasets, for any annotation format.

A sample has `image`; `image_id`, `path` and `size` (height, width) of the image on disk; `boxes` (G, 4), x1 y1 x2 y2 in
pixels of the transformed image, and `labels` (G,), for training; `frame` (scale x, scale y, offset x, offset y), which
maps pixels back to the image on disk; and `truth`, the annotation, which no transform changes.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.bad_samples import partners, with_bad
from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError
from ndformer.framework.registry.ranges import Share, check_share
from ndformer.modalities.image.datasets.sizes import SizedImages
from ndformer.modalities.image.formats.files import open_image
from ndformer.modalities.image.transforms.box_augment import mosaic
from ndformer.modalities.image.transforms.boxes import clip_boxes

MIN_SIDE = 1e-3  # pixels; thinner boxes are annotation mistakes


@dataclass(frozen=True, eq=False)
class AnnotatedImage:
    """An image and its annotation, with the boxes as the annotation has them."""

    path: Path
    image_id: Any
    boxes: np.ndarray  # (G, 4) float64, x1 y1 x2 y2
    labels: np.ndarray  # (G,) int64
    # (G,) areas of the objects, where they differ from the areas of their boxes; infinite: ignored in evaluation
    area: np.ndarray = field(default_factory=lambda: np.empty(0))
    crowd: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))  # (G,)
    size: tuple[int, int] | None = None  # width and height that the annotation claims


def annotated_size(width: Any, height: Any) -> tuple[int, int] | None:
    """Return an annotation's width and height, or None without valid ones: some programs fill in 0 or -1."""
    try:
        size = int(float(width)), int(float(height))
    except (TypeError, ValueError, OverflowError):
        return None
    return size if min(size) > 0 else None


class DetectionDataset(SizedImages):
    """A dataset of images with boxes; extend it with `on_disk` and `annotations`.

    Crowds, ignored objects and boxes outside of the image are left out of training. `mosaic` is the share of training
    samples that are four images in one.
    """

    answer = "Boxes"
    reading_options = ("mosaic",)

    def __init__(self, *args: Any, mosaic: Share = 0.0, **kwargs: Any) -> None:
        self.mosaic = check_share(mosaic, "mosaic")
        super().__init__(*args, **kwargs)

    def annotations(self, split: str) -> list[AnnotatedImage]:
        """Return all images of a split on disk, those without objects too. Sets `classes` and `categories`."""
        raise NotImplementedError

    def image_path(self, record: AnnotatedImage) -> Path:
        return record.path

    def absent(self) -> list[str]:
        present = {label for annotation in self.records for label in annotation.labels.tolist()}
        return [name for label, name in enumerate(self.classes) if label not in present]

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        annotations = self.annotations(split)
        if split == "train" and not any(len(annotation.labels) for annotation in annotations):
            raise DataError(
                f"none of the {len(annotations)} training images under {self.data_root} has a box, so there is "
                "nothing to learn: check their annotations"
            )
        return annotations, np.zeros(
            len(annotations), dtype=np.int64
        )  # one label for all, so a hold-out takes every tenth image

    def sample(self, epoch: int, i: int) -> Sample:
        rng = np.random.default_rng((self.seed, epoch, i, 1))
        if self.split != "train" or rng.random() >= self.mosaic:
            return super().sample(epoch, i)
        first = self.decoded(i)
        partner_samples, bad = partners(self, rng, 3, self.decoded)
        # a mosaic has the ratio of its first image, so KeepAspect gives it the size that `batch_tokens` knows
        return with_bad(self.changed(mosaic([first, *partner_samples], rng) | dict(index=i, **self.limits), rng), bad)

    def read(self, record: Any) -> Sample:
        annotation: AnnotatedImage = record
        image = open_image(annotation.path, size=annotation.size)
        if annotation.size not in (None, image.size):
            annotated, actual = (" x ".join(map(str, size)) for size in (annotation.size, image.size))
            raise DataError(
                f"{annotation.path} has {actual} pixels, but its annotation is for an image of {annotated}, so its "
                "boxes may be misplaced. Use the image that was annotated, or correct its size in the annotation"
            )
        crowd = annotation.crowd if len(annotation.crowd) else np.zeros(len(annotation.labels), dtype=bool)
        area = annotation.area if len(annotation.area) else (annotation.boxes[:, 2:] - annotation.boxes[:, :2]).prod(1)
        learnable = ~(crowd | np.isinf(area))
        return dict(
            image=image,
            path=str(annotation.path),
            image_id=annotation.image_id,
            size=(image.height, image.width),
            frame=np.array([1.0, 1.0, 0.0, 0.0]),
            truth=dict(boxes=annotation.boxes, labels=annotation.labels, area=area, crowd=crowd),
            **clip_boxes(annotation.boxes[learnable], annotation.labels[learnable], *image.size, min_side=MIN_SIDE),
        )
