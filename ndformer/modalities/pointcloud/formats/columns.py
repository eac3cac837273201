"""Columns of point clouds: positions, normals, colors and labels, recognized by their names or values."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

Columns = dict[str, np.ndarray]  # (n,) each, by the names of NAMES
Cloud = dict[str, np.ndarray]  # points (n, 3), and optionally normals (n, 3), colors 0..255 (n, 3), labels (n,)

NAMES = {  # the columns of each part, in order, with their names in other programs
    "points": (("x",), ("y",), ("z",)),
    "normals": (("nx", "normal_x", "normalx"), ("ny", "normal_y", "normaly"), ("nz", "normal_z", "normalz")),
    "colors": (("red", "r", "diffuse_red"), ("green", "g", "diffuse_green"), ("blue", "b", "diffuse_blue")),
}
LABELS = ("label", "labels", "class", "classification", "category", "segment", "semantic", "sem_class")
MAX_OFFSET = 4  # distance from the origin, in sizes of the cloud, up to which float32 is exact enough
SKIPPED = "-"  # name of a column to skip
XYZ, NORMAL, COLOR = (tuple(names[0] for names in axes) for axes in NAMES.values())
LONGER = "3 numbers (x, y, z), 6 (and a normal or a color) or 9 (and both)"


class UnnamedError(ValueError):
    """Rows of numbers whose columns cannot be recognized."""


def plain(name: str) -> str:
    """Normalize a column name as in NAMES: CloudCompare's scalar_Label becomes label."""
    return name.strip(" \t\"'").lower().removeprefix("scalar_")


def split_names(text: str) -> list[str]:
    """Split a header, or names given by a user, into column names: X Y Z R G B; x,y,z,red,green,blue."""
    return [plain(word) for word in re.split(r"[\s,;]+", text.strip().lstrip("#/%;").strip()) if word]


def name_rows(rows: np.ndarray, names: Sequence[str] | None) -> Columns:
    """Name the columns of rows (n, columns). Without `names`, three are positions and the others are detected."""
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise ValueError(f"it must have rows of {LONGER}, got {rows.dtype} of shape {rows.shape}")
    if names is None:
        check_width(rows)
        names = [*XYZ, *(name for i in range(3, rows.shape[1], 3) for name in detect_kind(rows[:, i : i + 3], i))]
        if len(set(names)) < len(names):
            raise UnnamedError("has normals twice or colors twice")
    if len(names) != rows.shape[1]:
        raise UnnamedError(f"has rows of {rows.shape[1]} numbers, not of {' '.join(names)}")
    return {name: rows[:, i] for i, name in enumerate(names) if name != SKIPPED}


def check_width(rows: np.ndarray) -> None:
    if rows.shape[1] < 3:
        raise ValueError(f"it must have rows of {LONGER}, got rows of {rows.shape[1]} numbers")
    if rows.shape[1] not in (3, 6, 9):
        raise UnnamedError(f"has rows of {rows.shape[1]} numbers without names, and not of {LONGER}")


def detect_kind(values: np.ndarray, column: int) -> tuple[str, ...]:
    """Tell normals (of length 1, or with negative values) from colors (up to 1, 255 or integers up to 65535)."""
    finite = values[np.isfinite(values).all(1)].astype(np.float64)
    if not len(finite) or finite.min() < 0:
        return NORMAL
    length = np.linalg.norm(finite, axis=1)
    if length.any() and (np.abs(length[length > 0] - 1) < 0.01).all():
        return NORMAL
    if finite.max() > 255 and (finite.max() > 65535 or (finite % 1).any()):
        raise UnnamedError(f"has columns {column + 1} to {column + 3} that are neither normals nor colors")
    return COLOR


def build_cloud(columns: Mapping[str, np.ndarray], labels: str | None = None) -> Cloud:
    """Build a cloud in float64 from columns. `labels` is one more name for the column of labels, besides LABELS."""
    table = {plain(name): values for name, values in columns.items()}
    cloud = {}
    for part, axes in NAMES.items():
        axis_values = [next((table[name] for name in names if name in table), None) for names in axes]
        present = [values for values in axis_values if values is not None]
        if len(present) == 3:
            cloud[part] = np.stack(present, 1)
        elif part == "points":
            missing = next(names[0] for names, values in zip(axes, axis_values) if values is None)
            raise ValueError(f"its points have no {missing}")
    label = next((table[name] for name in (plain(labels or ""), *LABELS) if name in table), None)
    if label is not None:
        cloud["labels"] = label
    return cloud


def integer_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels as integers; NaN, which CloudCompare writes for unlabeled points, becomes -1."""
    if labels.dtype.kind != "f":
        return labels
    filled = np.where(np.isnan(labels), -1, labels)
    if (filled % 1).any() or np.abs(filled).max(initial=0) > 2**52:
        raise ValueError("its labels are not integers")
    return filled.astype(np.int64)


def byte_colors(colors: np.ndarray) -> np.ndarray:
    """Scale colors to 0..255 from bytes, from floats up to 1 or from 16 bits, as their largest value indicates."""
    low, high = (colors.min(), colors.max()) if len(colors) else (0, 0)
    if low < 0 or high > 65535:
        raise ValueError(f"its colors must go up to 1, 255 or 65535, got {low:g} to {high:g}")
    if colors.dtype == np.uint8:
        return colors.astype(np.float32)
    scale = 255.0 if colors.dtype.kind == "f" and high <= 1 else 1.0 if high <= 255 else 1 / 257
    return (colors * scale).astype(np.float32)


def compact_positions(points: np.ndarray) -> np.ndarray:
    """Return positions in float32 near the origin, else in float64 until they are centered.

    float32 has a resolution of half a meter at UTM northings, and enough for a centered cloud.
    """
    if points.dtype.kind == "f" and points.itemsize <= 4:
        return np.ascontiguousarray(points, np.float32)
    precise = np.ascontiguousarray(points, np.float64)
    compact = np.abs(precise).max(initial=0) <= MAX_OFFSET * np.ptp(precise, 0).max(initial=0) if len(precise) else True
    return precise.astype(np.float32) if compact else precise
