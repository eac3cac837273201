"""COCO's box metric: average precision and recall over exactly the evaluated images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco import views as coco_views
from ndformer.framework.evaluation.coco.average import best_f1, evaluate
from ndformer.framework.evaluation.coco.files import write_detections
from ndformer.framework.evaluation.coco.match import Detections, Truth
from ndformer.framework.evaluation.metric import ADVICE, Metric
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import METRICS

Evaluated = tuple[Any, dict[str, np.ndarray], dict[str, np.ndarray]]  # image id, truth, predictions


@METRICS.register_module()
class CocoMetric(Metric):
    """COCO's twelve numbers as shares (-1 without objects of that size), and the best F1 with its score threshold.

    It reads Boxes whose sample has an `image_id` and the `truth`: dict(boxes (G, 4), labels (G,), and optionally
    area (G,) and crowd (G,)). Boxes are x1 y1 x2 y2 in pixels of the original image.
    """

    main, better, unit = "mAP", "higher", "share"
    quantities = dict(F1_threshold=Quantity("higher", "", 2))  # a score threshold; its direction has no meaning
    words = dict(
        mAP="mAP, IoU 0.5 to 0.95",
        mAP50="mAP at IoU 0.5",
        mAP75="mAP at IoU 0.75",
        F1="best F1",
        F1_threshold="score that gives the best F1",
    )

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            if answer.truth is None:
                raise DataError(f"{answer.path or 'a sample'} has no boxes to compare with. Use ndformer predict")
            truth = {k: np.asarray(v) for k, v in answer.truth.items()}
            self.results.append((answer.sample["image_id"], truth, answer.predictions))

    def compute_metrics(self, results: list[Evaluated]) -> dict[str, float]:
        self.images, self.truth, self.detections = gather(results)
        labels = np.concatenate([self.truth.label, self.detections.label])
        self._classes = int(labels.max(initial=-1)) + 1  # later classes have neither truth nor detections
        values = evaluate(self.truth, self.detections, len(self.images), self._classes).numbers()
        named = {f"m{name}" if name.startswith("AP") else name: value for name, value in values.items()}
        nothing = f"no detection overlaps an object of its class with an IoU of at least 0.5: {ADVICE}"
        self.remark = nothing if named["mAP50"] == 0 else None  # -1: there are no objects
        return named | best_f1(self.truth, self.detections, len(self.images))

    def views(self, folder: Path | None, classes: Sequence[str]) -> str:
        """Return the table of classes of the last evaluation, and write plots as PNG if a folder is given."""
        averages = evaluate(self.truth, self.detections, len(self.images), len(classes))
        if folder is not None:
            counts = coco_views.confusion(self.truth, self.detections, len(classes))
            coco_views.draw(folder, averages, counts, classes)
        return coco_views.table(coco_views.class_numbers(averages, classes))

    def export(self, path: Path, categories: Sequence[Any]) -> bool:
        """Write COCO's list of detections with the ids of images and `categories`."""
        write_detections(path, self.detections, self.images, categories)
        return True


def gather(results: Sequence[Evaluated]) -> tuple[list[Any], Truth, Detections]:
    """Concatenate the results of all images, sorted by id."""
    for image, truth, predictions in results:
        _check(image, truth, predictions)
    kinds = sorted({type(image).__name__ for image, *_ in results})
    try:
        results = sorted(results, key=lambda result: result[0])
    except TypeError as error:
        raise DataError(
            f"image_id is of one type in a set, got {' and '.join(kinds)}. Make all of them integers or all strings"
        ) from error
    images = [image for image, *_ in results]
    if len(set(images)) < len(images):
        twice = next(a for a, b in zip(images, images[1:]) if a == b)
        raise DataError(f"image {twice!r} was evaluated twice: each image_id stands once in a set")

    def concatenated(part: int, key: str, *width: int, default: float = 0.0) -> np.ndarray:
        values = [result[part].get(key, np.full(len(result[part]["labels"]), default)) for result in results]
        return np.concatenate([np.empty((0, *width)), *(value.reshape(-1, *width) for value in values)])

    def image_index(part: int) -> np.ndarray:
        return np.repeat(np.arange(len(results)), [len(result[part]["labels"]) for result in results])

    box, found = _sides(concatenated(1, "boxes", 4)), _sides(concatenated(2, "boxes", 4))
    area = concatenated(1, "area", default=np.nan)
    area = np.where(np.isnan(area), box[:, 2] * box[:, 3], area)
    labels, predicted = (concatenated(part, "labels").astype(np.int64) for part in (1, 2))
    truth = Truth(image_index(1), labels, box, area, concatenated(1, "crowd").astype(bool))
    return images, truth, Detections(image_index(2), predicted, found, concatenated(2, "scores"))


def _check(image: Any, truth: dict[str, np.ndarray], predictions: dict[str, np.ndarray]) -> None:
    """Raise DataError for NaN scores, which would sort first or last, and for negative labels."""
    if np.isnan(predictions["scores"]).any():
        raise DataError(f"scores of detections are numbers, got NaN in image {image!r}. Look for NaN in the weights")
    for name, boxes in (("truth", truth), ("detections", predictions)):
        if boxes["labels"].size and boxes["labels"].min() < 0:
            raise DataError(
                f"labels of the {name} count from 0, got {boxes['labels'].min()} in image {image!r}. Leave them out"
            )


def _sides(corners: np.ndarray) -> np.ndarray:
    """Convert boxes (N, 4) from x1 y1 x2 y2 to x y width height."""
    return np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
