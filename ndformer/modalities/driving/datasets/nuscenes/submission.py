"""nuScenes' json of predictions: what its server takes and tools/eval.py reads."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.system import atomic
from ndformer.modalities.driving.datasets.nuscenes.rules import MOST, NONE, Boxes
from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CLASSES
from ndformer.modalities.driving.formats.poses import headings, rotations

META = dict(use_camera=True, use_lidar=True, use_radar=False, use_map=False, use_external=False)
NUMBERS = dict(translation=3, size=3, rotation=4, velocity=2)
REMEDY = "export it again"


def write_submission(path: Path, found: Boxes, tokens: Sequence[str], meta: Mapping[str, bool] = META) -> None:
    """Of samples with these tokens, each with what was found there, also where that is nothing."""
    results: dict[str, list[dict[str, Any]]] = {token: [] for token in tokens}
    for i in range(len(found)):
        token = tokens[int(found.sample[i])]
        attribute = int(found.attribute[i])
        row: dict[str, Any] = dict(sample_token=token)
        row |= dict(translation=found.centre[i].tolist(), size=found.size[i].tolist())
        row |= dict(rotation=[math.cos(found.yaw[i] / 2), 0.0, 0.0, math.sin(found.yaw[i] / 2)])  # upright
        row |= dict(velocity=found.velocity[i].tolist(), detection_name=CLASSES[found.label[i]])
        row |= dict(detection_score=float(found.score[i]))
        results[token].append(row | dict(attribute_name="" if attribute == NONE else ATTRIBUTES[attribute]))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(dict(meta=dict(meta), results=results)) + "\n")


def read_submission(path: Path, tokens: Sequence[str]) -> Boxes:
    """What a file says of the samples with these tokens, all of them and no others, in the order of the file."""
    results = _results(path)
    known = {token: i for i, token in enumerate(tokens)}
    strange = next((token for token in results if token not in known), None)
    if strange is not None:
        raise DataError(f"{path} has predictions for the sample {strange!r}, which is not of this split: {SPLIT}")
    gone = next((token for token in tokens if token not in results), None)
    if gone is not None:
        raise DataError(
            f"{path} says nothing of {len(known) - len(results)} of the {len(known)} samples, the first is {gone}: a "
            f"sample without predictions has an empty list, and {SPLIT}"
        )
    parts = []
    for token, rows in results.items():
        if not isinstance(rows, list):
            raise DataError(f"{path} has no list of predictions for the sample {token}: {REMEDY}")
        if len(rows) > MOST:
            raise DataError(f"{path} has {len(rows)} predictions for the sample {token}, and {MOST} are allowed")
        parts.append(_boxes(rows, known[token], f"of the sample {token} in {path}"))
    return Boxes.together(parts)


SPLIT = "give the --version and --split that it was made for"


def _results(path: Path) -> dict[str, Any]:
    try:
        content = foreign.plain_json(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: give the json that an export has written") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not json ({error}): {REMEDY}") from None
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        raise DataError(f"{path} is no submission, which is an object with 'meta' and 'results' by sample: {REMEDY}")
    return content["results"]


def _boxes(rows: list[Any], sample: int, of: str) -> Boxes:
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"prediction {i} {of} is no object: {REMEDY}")
        _check(row, f"prediction {i} {of}")
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
            raise DataError(f"{which} has a '{name}' that is not {count} numbers, got {value!r:.80}: {REMEDY}")
    if min(row["size"]) <= 0:
        raise DataError(f"{which} has a size of {row['size']}, and sides are larger than 0: {REMEDY}")
    if not any(row["rotation"]):
        raise DataError(f"{which} has a rotation of zeros, which is none: {REMEDY}")
    score: Any = row.get("detection_score")
    if not _is_number(score) or not math.isfinite(score):
        raise DataError(f"{which} has a detection_score that is no number, got {score!r:.80}: {REMEDY}")
    for name, among in (("detection_name", CLASSES), ("attribute_name", [*ATTRIBUTES, ""])):
        value = row.get(name)
        if not isinstance(value, str) or value not in among:
            meant = nearest(value, among) if isinstance(value, str) else "."
            raise DataError(f"{which} has the {name} {value!r:.80}, which is none{meant} {REMEDY.capitalize()}")


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 2**63)
