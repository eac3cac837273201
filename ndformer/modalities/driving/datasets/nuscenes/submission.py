"""nuScenes' json of predictions, for its server and ndformer eval."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.system import atomic
from ndformer.modalities.driving.datasets.nuscenes.rules import MAX_BOXES, NONE, Boxes, together
from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CLASSES
from ndformer.modalities.driving.formats.poses import headings, rotations

META = dict(use_camera=True, use_lidar=True, use_radar=False, use_map=False, use_external=False)
NUMBERS = dict(translation=3, size=3, rotation=4, velocity=2)
REMEDY = "export it again"


def write_submission(path: Path, boxes: Boxes, tokens: Sequence[str], meta: Mapping[str, bool] = META) -> None:
    """Write the predictions of the samples `tokens`; samples without any have an empty list."""
    results: dict[str, list[dict[str, Any]]] = {token: [] for token in tokens}
    for i in range(len(boxes)):
        token = tokens[int(boxes.sample[i])]
        attribute = int(boxes.attribute[i])
        row: dict[str, Any] = dict(sample_token=token)
        row |= dict(translation=boxes.center[i].tolist(), size=boxes.size[i].tolist())
        row |= dict(rotation=[math.cos(boxes.yaw[i] / 2), 0.0, 0.0, math.sin(boxes.yaw[i] / 2)])  # upright
        row |= dict(velocity=boxes.velocity[i].tolist(), detection_name=CLASSES[boxes.label[i]])
        row |= dict(detection_score=float(boxes.score[i]))
        results[token].append(row | dict(attribute_name="" if attribute == NONE else ATTRIBUTES[attribute]))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(dict(meta=dict(meta), results=results)) + "\n")


def read_submission(path: Path, tokens: Sequence[str]) -> Boxes:
    """Read the predictions of the samples `tokens`, all of them and no others, in the order of the file."""
    results = _results(path)
    numbers = {token: i for i, token in enumerate(tokens)}
    strange = next((token for token in results if token not in numbers), None)
    if strange is not None:
        raise DataError(f"{path} has predictions for the sample {strange!r}, which is not of this split: {SPLIT}")
    missing = next((token for token in tokens if token not in results), None)
    if missing is not None:
        raise DataError(
            f"{path} has no predictions for {len(numbers) - len(results)} of the {len(numbers)} samples, the first is "
            f"{missing}: give samples without predictions an empty list, and {SPLIT}"
        )
    parts = []
    for token, rows in results.items():
        if not isinstance(rows, list):
            raise DataError(f"{path} has no list of predictions for the sample {token}: {REMEDY}")
        if len(rows) > MAX_BOXES:
            raise DataError(f"{path} has {len(rows)} predictions for the sample {token}, and {MAX_BOXES} are allowed")
        parts.append(_boxes(rows, numbers[token], f"of the sample {token} in {path}"))
    return together(Boxes, parts)


SPLIT = "give the --version and --split that it was made for"


def _results(path: Path) -> dict[str, Any]:
    content = foreign.json_or_error(path, REMEDY)
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        raise DataError(f"{path} must be an object with 'meta' and 'results' by sample: {REMEDY}")
    return content["results"]


def _boxes(rows: list[Any], sample: int, context: str) -> Boxes:
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"prediction {i} {context} is no object: {REMEDY}")
        _check(row, f"prediction {i} {context}")
    several = {name: np.array([r[name] for r in rows], np.float64).reshape(-1, n) for name, n in NUMBERS.items()}
    return Boxes(
        np.full(len(rows), sample),
        np.array([CLASSES.index(row["detection_name"]) for row in rows], np.int64),
        several["translation"],
        several["size"],
        headings(rotations(several["rotation"])),
        several["velocity"],
        np.array([ATTRIBUTES.index(a) if (a := row["attribute_name"]) else NONE for row in rows], np.int64),
        np.array([row["detection_score"] for row in rows], np.float64),
        np.zeros(0, np.int64),
    )


def _check(row: dict[str, Any], which: str) -> None:
    for name, count in NUMBERS.items():
        value: Any = row.get(name)
        plain = isinstance(value, list) and len(value) == count and all(map(_is_number, value))
        if not plain or (name != "velocity" and not all(map(math.isfinite, value))):
            raise DataError(f"{which} must have a '{name}' of {count} numbers, got {value!r:.80}: {REMEDY}")
    if min(row["size"]) <= 0:
        raise DataError(f"{which} must have sides larger than 0, got a size of {row['size']}: {REMEDY}")
    if not any(row["rotation"]):
        raise DataError(f"{which} has a rotation of zeros: {REMEDY}")
    score: Any = row.get("detection_score")
    if not _is_number(score) or not math.isfinite(score):
        raise DataError(f"{which} must have a number as detection_score, got {score!r:.80}: {REMEDY}")
    for name, among in (("detection_name", CLASSES), ("attribute_name", [*ATTRIBUTES, ""])):
        value = row.get(name)
        if not isinstance(value, str) or value not in among:
            hint = nearest(value, among) if isinstance(value, str) else "."
            raise DataError(f"{which} has the {name} {value!r:.80}, which is none{hint} {REMEDY.capitalize()}")


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 2**63)
