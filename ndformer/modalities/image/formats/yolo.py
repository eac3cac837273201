"""Reader of YOLO's label files: rows of `class x y width height` in shares of the image, or `class` and corners.

Polygons (segmentation), oriented boxes (OBB, four corners) and key points (pose) become their bounding boxes.
"""

from collections import Counter
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

BOX, CORNERS, POLYGON, POSE = "boxes", "oriented boxes or shapes of four corners", "polygons", "boxes with key points"
ROW = "five numbers, class x y width height, or the class and the x y of three corners or more"


def row_kind(numbers: int, points: int = 0) -> str | None:
    """Return the kind of a row by its count of numbers, or None. Poses have `points` numbers after the box."""
    if points and numbers == 5 + points:
        return POSE
    return {5: BOX, 9: CORNERS}.get(numbers, POLYGON if numbers >= 7 and numbers % 2 else None)


def read_rows(path: Path, points: int = 0) -> tuple[np.ndarray, np.ndarray, Counter[str]]:
    """Read classes (N,), boxes (N, 4) x1 y1 x2 y2 as shares of the image, and how many rows there are of each kind."""
    labels, boxes, kinds = [], [], Counter[str]()
    for number, line in enumerate(foreign.lines(path), 1):
        if not line.strip():
            continue
        try:
            label, *values = (float(word) for word in line.split())
        except ValueError:
            label, values = np.nan, []
        kind = row_kind(1 + len(values), points)
        if kind is None or not np.isfinite([label, *values]).all():
            more = " A sixth number is the score of a prediction" if len(values) == 5 else ""
            raise DataError(f"row {number} of {path} must have {ROW}, got '{line:.60}'.{more}")
        kinds[kind] += 1
        labels.append(label)
        boxes.append(_bounds(values, kind))
    return np.array(labels), np.array(boxes).reshape(-1, 4), kinds


def _bounds(values: list[float], kind: str) -> tuple[float, float, float, float]:
    if kind in (BOX, POSE):
        x, y, width, height = values[:4]
        return x - width / 2, y - height / 2, x + width / 2, y + height / 2
    return min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2])


def describe_kinds(kinds: Counter[str]) -> str:
    """Say how many objects are not plain boxes, and that their bounding boxes are taken; empty where all are boxes."""
    kinds_text = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if kind != BOX)
    return f"of {kinds.total()} objects there are {kinds_text}: their bounding boxes are taken" if kinds_text else ""
