"""Descriptions of files of boxes: COCO's, VOC's and YOLO's."""

import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.describe import CONTENT, ENDING, NO, Describer, Description, true_sentences
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco.files import GroundTruth, read_truth
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.image.datasets.coco import image_folder
from ndformer.modalities.image.datasets.detection import annotated_size
from ndformer.modalities.image.datasets.voc import is_difficult
from ndformer.modalities.image.formats.yolo import describe_kinds, read_rows

NUMBERED = re.compile(r"\s*\d+(\.0*)?(\s+[-+.\deE]+){4}\s*")  # a row of a box in YOLO's format
SHARES = re.compile(
    r"\s*\d+(\s+(0|1|[01]?\.\d+|\d(\.\d+)?[eE]-\d+)){6,}\s*[\d.]*"
)  # a row of a polygon in YOLO's format; the end may be cut off
PICTURES = 200  # images of an annotation file whose sizes are checked


@DESCRIBERS.register_module()
class ImageLabels(Describer):
    """Files of boxes: COCO's and VOC's, recognized by their ending, and YOLO's, by its first row."""

    def claim(self, path: Path, begin: bytes) -> int:
        ending = path.suffix.lower()
        if ending in (".xml", ".json"):
            return ENDING
        line = begin.decode("latin-1").partition("\n")[0]
        return CONTENT if ending == ".txt" and (NUMBERED.fullmatch(line) or SHARES.fullmatch(line)) else NO

    def describe(self, path: Path, rows: int) -> Description:
        if not path.is_file():
            raise DataError(f"{path} is missing: get the dataset again, or give another file")
        return {".xml": _voc, ".json": _coco, ".txt": _yolo}[path.suffix.lower()](path)


def _coco(path: Path) -> Description:
    truth = read_truth(path)
    boxes, sizes = truth.boxes, [(r.get("width"), r.get("height")) for r in truth.records]
    counts = np.bincount(boxes.label, minlength=len(truth.classes)).tolist()
    facts: dict[str, Any] = dict(format="COCO annotations", images=len(truth.images), boxes=len(boxes.label))
    facts |= dict(crowds=int(boxes.crowd.sum()), classes=dict(zip(truth.classes, counts)))
    empty, none = len(truth.images) - len(np.unique(boxes.image)), counts.count(0)
    unnamed = sum(not isinstance(record.get("file_name"), str) for record in truth.records)
    without = {"images have no box": empty, "classes have no box": none, "images have no file_name": unnamed}
    odd = true_sentences({f"{count} {problem}": count for problem, count in without.items()})
    if all(isinstance(w, int) and isinstance(h, int) for w, h in sizes) and sizes:
        limit = np.array(sizes, np.float64)[boxes.image]
        odd += _outside(boxes.box[:, :2], boxes.box[:, :2] + boxes.box[:, 2:], limit, 0.5)
    odd += _other_sizes(path, truth)
    first = [
        dict(image=truth.images[i], name=truth.classes[c]) | dict(zip(("x", "y", "width", "height"), box))
        for i, c, box in zip(boxes.image[:20], boxes.label[:20], boxes.box[:20].round(2).tolist())
    ]
    return facts, odd, first


def _other_sizes(path: Path, truth: GroundTruth) -> list[str]:
    """List images of the file whose size on disk differs from the annotated size, among the first PICTURES."""
    root = path.parent if path.name == "_annotations.coco.json" else path.parent.parent
    home, wrong, checked = image_folder(root, path), [], 0
    for record in truth.records[:PICTURES]:
        annotated = annotated_size(record.get("width"), record.get("height"))
        name = record.get("file_name")
        if annotated is None or not isinstance(name, str) or not (picture := foreign.inside(home, name)).is_file():
            continue
        checked += 1
        size = foreign.image_size(picture)
        if annotated not in (size, size[::-1]):
            actual, claimed = (" x ".join(map(str, side)) for side in (size, annotated))
            wrong.append(f"{name} has {actual} pixels, but the list claims {claimed}")
    if not wrong:
        return []
    return [
        f"{len(wrong)} of {checked} pictures are not as large as it says, so their boxes may be elsewhere: {wrong[0]}"
    ]


def _outside(low: np.ndarray, high: np.ndarray, size: np.ndarray, slack: float) -> list[str]:
    """Count boxes beyond their images and boxes without area, by corners (N, 2) and image sizes (N, 2)."""
    out = int(((low < -slack) | (high > size + slack)).any(1).sum())
    thin = int((high <= low).any(1).sum())
    return true_sentences({f"{out} boxes reach out of their images": out, f"{thin} boxes have no area": thin})


def _voc(path: Path) -> Description:
    try:
        root = foreign.plain_xml(path)
        size = [int(float(root.findtext(f"size/{side}") or 0)) for side in ("width", "height")]
        sides = ("xmin", "ymin", "xmax", "ymax")
        first = [
            dict(name=(element.findtext("name") or "").strip())
            | {s: float(element.findtext(f"bndbox/{s}") or "nothing") for s in sides}
            for element in root.iter("object")
        ]
    except (ElementTree.ParseError, ValueError, OverflowError) as error:
        raise DataError(f"{path} cannot be read as VOC's xml ({error}): get it again") from None
    names = [row["name"] for row in first]
    box = np.array([[row[s] for s in sides] for row in first]).reshape(-1, 4)
    odd = _outside(box[:, :2] - 1, box[:, 2:], np.array(size) + np.zeros((len(box), 2)), 0) if all(size) else []
    odd += [] if all(size) else ["it does not say how large its image is"]
    hard = sum(map(is_difficult, root.iter("object")))
    odd += [f"{hard} objects are difficult: they are neither learned from nor counted"] if hard else []
    odd += [f"{names.count('')} objects have no name"] if "" in names else []
    facts = dict(format="VOC annotation", width=size[0], height=size[1], boxes=len(first))
    return facts | dict(classes={name: names.count(name) for name in sorted(set(names))}), odd, first


def _yolo(path: Path) -> Description:
    classes, box, kinds = read_rows(path)
    labels = classes.astype(np.int64).tolist()
    odd = _outside(box[:, :2], box[:, 2:], np.ones((len(box), 2)), 1e-3)
    odd += [summary] if (summary := describe_kinds(kinds)) else []
    names = ("label", "x", "y", "width", "height")
    centered = np.concatenate([(box[:, :2] + box[:, 2:]) / 2, box[:, 2:] - box[:, :2]], 1)[:20].round(6)
    first: list[dict[str, Any]] = [
        dict(zip(names, (label, *values))) for label, values in zip(labels, centered.tolist())
    ]
    return dict(format="YOLO boxes", boxes=len(box), classes=dict(sorted(Counter(labels).items()))), odd, first
