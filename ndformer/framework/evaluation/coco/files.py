"""Read and write COCO's files of ground truth and detections, with one clear error for invalid content."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco.match import Detections, Truth
from ndformer.framework.system import atomic

Item = Mapping[str, Any]
REMEDY = "name a complete JSON file"
COLUMNS = ("image_id", "category_id", "bbox")


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """The true boxes of a set of images; indices of images and classes follow their sorted ids."""

    boxes: Truth
    images: list[Any]  # ids, sorted
    categories: list[Any]  # ids, sorted
    classes: list[str]  # names, one per category
    records: list[Item] = field(default_factory=list)  # the image entries of the file, in that order


def read_truth(path: Path) -> GroundTruth:
    content = foreign.json_or_error(path, REMEDY)
    if not isinstance(content, dict):
        raise DataError(
            f"{path} holds {_kind(content)}, but ground truth is an object: did the two files change places?"
        )
    for key in ("images", "annotations", "categories"):
        if not isinstance(content.get(key), list):
            raise DataError(f"{path} has no list '{key}': ground truth has 'images', 'annotations' and 'categories'")
    return truth_from(content, str(path))


def truth_from(content: Item, name: str = "the ground truth") -> GroundTruth:
    """Build ground truth from the content of a COCO file; the default of `area` is that of the box."""
    images, annotations = content["images"], content["annotations"]
    records = dict(sorted(_by_id(images, "image", name).items()))
    categories = dict(sorted(_by_id(content["categories"], "category", name).items()))
    _by_id([a for a in annotations if isinstance(a, dict) and "id" in a], "annotation", name)
    image, label, box = _boxes(annotations, list(records), list(categories), f"annotation {{}} of {name}")
    area = [a.get("area", w * h) for a, (w, h) in zip(annotations, box[:, 2:].tolist())]
    crowd = np.array([bool(a.get("iscrowd", 0)) for a in annotations], dtype=bool)
    truth = Truth(image, label, box, _numbers(area, "area", f"annotation {{}} of {name}"), crowd)
    classes = [str(c.get("name", key)) for key, c in categories.items()]
    return GroundTruth(truth, list(records), list(categories), classes, list(records.values()))


def read_detections(path: Path, truth: GroundTruth) -> Detections:
    content = foreign.json_or_error(path, REMEDY)
    if not isinstance(content, list):
        raise DataError(
            f"{path} holds {_kind(content)}, but detections are a list of objects with image_id, category_id, bbox and "
            "score: did the two files change places?"
        )
    return detections_from(content, truth, str(path))


def detections_from(content: Sequence[Item], truth: GroundTruth, name: str = "the list") -> Detections:
    template = f"detection {{}} of {name}"
    image, label, box = _boxes(content, truth.images, truth.categories, template)
    missing = next((i for i, d in enumerate(content) if "score" not in d), None)
    if missing is not None:
        raise DataError(f"{template.format(missing)} has no 'score': each has image_id, category_id, bbox and score")
    return Detections(image, label, box, _numbers([d["score"] for d in content], "score", template))


def listed(detections: Detections, images: Sequence[Any], categories: Sequence[Any]) -> list[dict[str, Any]]:
    """Return detections as the list that COCO's server and tools take, with these ids."""
    rows = zip(*(x.tolist() for x in (detections.image, detections.label, detections.box, detections.score)))
    return [dict(image_id=images[i], category_id=categories[c], bbox=box, score=score) for i, c, box, score in rows]


def write_detections(path: Path, detections: Detections, images: Sequence[Any], categories: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(listed(detections, images, categories)))


def _kind(content: Any) -> str:
    return {list: "a list", dict: "an object"}.get(type(content), f"the value {content!r:.40}")


def _by_id(items: Sequence[Any], kind: str, name: str) -> dict[Any, Item]:
    """Return items by id; raise DataError unless ids are unique and of one type, so that they can be sorted."""
    found: dict[Any, Item] = {}
    for i, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(item.get("id"), (int, str)):
            raise DataError(f"{kind} {i} of {name} has no 'id': it is an object with a whole number or a text as id")
        if item["id"] in found:
            raise DataError(f"{name} has two of {kind} id {item['id']!r}: each id stands once")
        found[item["id"]] = item
    if len({isinstance(key, str) for key in found}) > 1:
        raise DataError(f"{name} has {kind} ids that are numbers and others that are texts: make them one kind")
    return found


def _boxes(
    items: Sequence[Any], images: Sequence[Any], categories: Sequence[Any], template: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return image index, class index and box (N, 4) of annotations or detections."""
    for i, item in enumerate(items):
        if not isinstance(item, dict) or any(key not in item for key in COLUMNS):
            lacks = [key for key in COLUMNS if not isinstance(item, dict) or key not in item]
            raise DataError(
                f"{template.format(i)} has no {' and no '.join(lacks)}: each is an object with {', '.join(COLUMNS)}"
            )
    image = _places([item["image_id"] for item in items], images, "image", template)
    label = _places([item["category_id"] for item in items], categories, "category", template)
    box = _numbers([item["bbox"] for item in items], "bbox", template, 4)
    wrong = np.flatnonzero((box[:, 2:] < 0).any(1))
    if len(wrong):
        i = int(wrong[0])
        raise DataError(
            f"{template.format(i)} has the negative size {box[i, 2]:g} x {box[i, 3]:g}: bbox is x, y, width, height"
        )
    return image, label, box


def _places(ids: Sequence[Any], all_ids: Sequence[Any], kind: str, template: str) -> np.ndarray:
    """Return (N,): the index of each id in the list of all ids."""
    place = {key: i for i, key in enumerate(all_ids)}
    found = [place.get(key, -1) if isinstance(key, Hashable) else -1 for key in ids]
    if -1 in found:
        i = found.index(-1)
        span = f"{all_ids[0]!r} to {all_ids[-1]!r}" if all_ids else "none"
        raise DataError(
            f"{template.format(i)} is of {kind} {ids[i]!r}, which the ground truth does not list: "
            f"it has {len(all_ids)}, {span}; were labels meant as ids, or is this another set?"
        )
    return np.array(found, dtype=np.int64)


def _numbers(values: Sequence[Any], key: str, template: str, width: int = 0) -> np.ndarray:
    """Return (N,) or (N, width) float64 values; raise DataError unless all are finite numbers."""
    shape = (len(values), width) if width else (len(values),)
    if not values:
        return np.empty(shape)
    try:
        found = np.array(values)
        good = found.dtype.kind in "iuf" and found.shape == shape
    except (ValueError, OverflowError):
        good, found = False, np.empty(0)
    if good and np.isfinite(found).all():
        return found.astype(np.float64)
    i = next(i for i, value in enumerate(values) if not _finite(value, width))
    expected = f"{width} finite numbers" if width else "a finite number"
    raise DataError(f"{template.format(i)} has the {key} {values[i]!r:.60}: it takes {expected}")


def _finite(value: Any, width: int) -> bool:
    try:
        numbers = np.array(value)
        shape = (width,) if width else ()
        return numbers.dtype.kind in "iuf" and numbers.shape == shape and bool(np.isfinite(numbers).all())
    except (ValueError, OverflowError):
        return False
