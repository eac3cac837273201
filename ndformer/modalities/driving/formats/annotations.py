"""Boxes in nuScenes' tables: of the ten classes and of bicycle racks, with velocities and attributes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CATEGORIES, CLASSES, RACK
from ndformer.modalities.driving.formats.frames import NO, Frames
from ndformer.modalities.driving.formats.poses import LEVEL
from ndformer.modalities.driving.formats.tables import Tables, integer, text

RACKS = len(CLASSES)  # label of racks
LATE = 1.5  # seconds between two annotations beyond which no velocity is computed


@dataclass(frozen=True, eq=False)
class Annotations:
    """Boxes in the map's frame, sorted by sample."""

    sample: np.ndarray  # (B,) in ascending order
    label: np.ndarray  # (B,)
    center: np.ndarray  # (B, 3)
    size: np.ndarray  # (B, 3) width, length, height
    rotation: np.ndarray  # (B, 4) w x y z
    velocity: np.ndarray  # (B, 2) NaN where unknown
    attribute: np.ndarray  # (B,)
    points: np.ndarray  # (B,) number of LiDAR and radar points


def read_annotations(tables: Tables, frames: Frames) -> Annotations:
    """Read the boxes of the ten classes and of bicycle racks."""
    names = {row["token"]: row["name"] for row in tables.rows("category", name=text)}
    labels = {name: CLASSES.index(label) for name, label in CATEGORIES.items()} | {RACK: RACKS}
    kinds = {
        row["token"]: labels.get(tables.lookup(names, row["category_token"], "category", "instance"), NO)
        for row in tables.rows("instance", category_token=text)
    }
    attributes = {row["token"]: row["name"] for row in tables.rows("attribute", name=text)}
    samples = {token: i for i, token in enumerate(frames.token.tolist())}
    numbers: dict[str, int] = {}
    rows: list[list[float]] = []
    integer_rows: list[tuple[int, int, int, int]] = []
    links: list[tuple[str, str]] = []
    keys = dict(prev=text, next=text, num_lidar_pts=integer, num_radar_pts=integer, translation=3, size=3, rotation=4)
    for row in tables.rows("sample_annotation", sample_token=text, instance_token=text, **keys):
        label = tables.lookup(kinds, row["instance_token"], "instance", "sample_annotation")
        if label == NO:
            continue
        sample = tables.lookup(samples, row["sample_token"], "sample", "sample_annotation")
        tables.add(numbers, row["token"], "sample_annotation")
        rows.append(row["translation"] + row["size"] + row["rotation"])
        points = row["num_lidar_pts"] + row["num_radar_pts"]
        integer_rows.append((sample, label, _attribute(tables, row, attributes), points))
        links.append((row["prev"], row["next"]))
    real = np.array(rows, np.float64).reshape(-1, 10)
    counts = np.array(integer_rows, np.int64).reshape(-1, 4)
    _check(tables, real, list(numbers))
    around = [
        [tables.lookup(numbers, token, "sample_annotation", "sample_annotation") if token else NO for token in pair]
        for pair in links
    ]
    velocity = velocities(real[:, :2], frames.time[counts[:, 0]], np.array(around, np.int64).reshape(-1, 2))
    order = np.argsort(counts[:, 0], kind="stable")  # the order of the table within each sample
    real, counts = real[order], counts[order]
    parts = real[:, :3], real[:, 3:6], real[:, 6:], velocity[order]
    return Annotations(counts[:, 0], counts[:, 1], *parts, counts[:, 2], counts[:, 3])


def velocities(places: np.ndarray, times: np.ndarray, around: np.ndarray) -> np.ndarray:
    """Return velocities (B, 2) in meters per second from the annotations of the same object before and after (B, 2).

    Where one of them is missing, the object's own position is used; NaN where both are missing or too far apart.
    """
    index = np.arange(len(places))
    first, last = (np.where(around[:, side] == NO, index, around[:, side]) for side in (0, 1))
    seconds = 1e-6 * times[last] - 1e-6 * times[first]  # as the devkit computes it, to the last bit
    max_seconds = np.where((around != NO).all(1), 2 * LATE, LATE)
    valid = (around != NO).any(1) & (seconds <= max_seconds) & (seconds > 0)
    return np.where(valid[:, None], (places[last] - places[first]) / np.where(valid, seconds, 1)[:, None], np.nan)


def _attribute(tables: Tables, row: dict[str, Any], names: dict[str, str]) -> int:
    tokens = row.get("attribute_tokens")
    if not isinstance(tokens, list) or len(tokens) > 1 or not all(isinstance(token, str) for token in tokens):
        raise DataError(
            f"{tables.path('sample_annotation')} gives {row['token']} the attributes {tokens!r:.80}, and a box has one "
            "or none: get it again"
        )
    name = tables.lookup(names, tokens[0], "attribute", "sample_annotation") if tokens else ""
    return ATTRIBUTES.index(name) if name in ATTRIBUTES else NO


def _check(tables: Tables, real: np.ndarray, tokens: list[str]) -> None:
    """Raise unless all boxes have finite values, positive sides and unit quaternions."""
    with np.errstate(invalid="ignore", over="ignore"):
        level = np.abs(np.linalg.norm(real[:, 6:], axis=1) - 1) < LEVEL
        fine = np.isfinite(real).all(1) & (real[:, 3:6] > 0).all(1) & level
    if not fine.all():
        wrong = int((~fine).argmax())
        raise DataError(
            f"{tables.path('sample_annotation')} has the box {tokens[wrong]} with place, size and rotation "
            f"{real[wrong].tolist()}: sides must be larger than 0 and rotations of length 1. Get it again"
        )
