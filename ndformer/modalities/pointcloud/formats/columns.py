"""The columns of a cloud: which are places, normals, colours and labels, by their names or by what they hold."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

Columns = dict[str, np.ndarray]  # (n,) each, by the names of NAMES
Cloud = dict[str, np.ndarray]  # points (n, 3) and, where there are some, normals and colours 0..255 (n, 3), labels (n,)

NAMES = {  # the columns of each part, in their order, as programs call them
    "points": (("x",), ("y",), ("z",)),
    "normals": (("nx", "normal_x", "normalx"), ("ny", "normal_y", "normaly"), ("nz", "normal_z", "normalz")),
    "colours": (("red", "r", "diffuse_red"), ("green", "g", "diffuse_green"), ("blue", "b", "diffuse_blue")),
}
LABELS = ("label", "labels", "class", "classification", "category", "segment", "semantic", "sem_class")
NEAR = 4  # times the size of a cloud
PASSED = "-"  # a column of no interest
XYZ, NORMAL, COLOUR = (tuple(names[0] for names in of) for of in NAMES.values())
LONGER = "3 numbers (x, y, z), 6 (and a normal or a colour) or 9 (and both)"


class UnnamedError(ValueError):
    """Rows of which nobody says what stands in them."""


def plain(name: str) -> str:
    """A name as NAMES has it: CloudCompare's scalar_Label is a label."""
    return name.strip(" \t\"'").lower().removeprefix("scalar_")


def split_names(text: str) -> list[str]:
    """Of a header, or of what people write: X Y Z R G B; x,y,z,red,green,blue."""
    return [plain(word) for word in re.split(r"[\s,;]+", text.strip().lstrip("#/%;").strip()) if word]


def name_rows(rows: np.ndarray, names: Sequence[str] | None) -> Columns:
    """Of rows of numbers (n, columns); without names, three columns are places, and three more are told by content."""
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise ValueError(f"it holds {rows.dtype} of shape {rows.shape} and not rows of {LONGER}")
    if names is None:
        check_width(rows)
        names = [*XYZ, *(name for at in range(3, rows.shape[1], 3) for name in kind_of(rows[:, at : at + 3], at))]
        if len(set(names)) < len(names):
            raise UnnamedError("has two normals or two colours in a row")
    if len(names) != rows.shape[1]:
        raise UnnamedError(f"has rows of {rows.shape[1]} numbers, not of {' '.join(names)}")
    return {name: rows[:, at] for at, name in enumerate(names) if name != PASSED}


def check_width(rows: np.ndarray) -> None:
    if rows.shape[1] < 3:
        raise ValueError(f"it holds rows of {rows.shape[1]} numbers and not of {LONGER}")
    if rows.shape[1] not in (3, 6, 9):
        raise UnnamedError(f"has rows of {rows.shape[1]} numbers without names, and not of {LONGER}")


def kind_of(values: np.ndarray, at: int) -> tuple[str, ...]:
    """Normals are of length 1 or have a sign; colours go up to 1, to 255, or in whole numbers to 65535."""
    known = values[np.isfinite(values).all(1)].astype(np.float64)
    if not len(known) or known.min() < 0:
        return NORMAL
    length = np.linalg.norm(known, axis=1)
    if length.any() and (np.abs(length[length > 0] - 1) < 0.01).all():
        return NORMAL
    if known.max() > 255 and (known.max() > 65535 or (known % 1).any()):
        raise UnnamedError(f"has columns {at + 1} to {at + 3} that are neither normals nor colours")
    return COLOUR


def cloud_of(columns: Mapping[str, np.ndarray], labels: str | None = None) -> Cloud:
    """The parts that columns make up, in float64. `labels` is the name of the column with labels, beside LABELS."""
    found = {plain(name): values for name, values in columns.items()}
    cloud = {}
    for part, axes in NAMES.items():
        given = [next((found[name] for name in names if name in found), None) for names in axes]
        there = [values for values in given if values is not None]
        if len(there) == 3:
            cloud[part] = np.stack(there, 1)
        elif part == "points":
            missing = next(names[0] for names, values in zip(axes, given) if values is None)
            raise ValueError(f"its points have no {missing}")
    label = next((found[name] for name in (plain(labels or ""), *LABELS) if name in found), None)
    if label is not None:
        cloud["labels"] = label
    return cloud


def whole(labels: np.ndarray) -> np.ndarray:
    """Labels in whole numbers; -1 for NaN, CloudCompare's word for nobody knows."""
    if labels.dtype.kind != "f":
        return labels
    known = np.where(np.isnan(labels), -1, labels)
    if (known % 1).any() or np.abs(known).max(initial=0) > 2**52:
        raise ValueError("its labels are not whole numbers")
    return known.astype(np.int64)


def in_bytes(colours: np.ndarray) -> np.ndarray:
    """0..255 of colours in bytes, as shares of 1 or in 16 bit; which of them, their largest number says."""
    low, high = (colours.min(), colours.max()) if len(colours) else (0, 0)
    if low < 0 or high > 65535:
        raise ValueError(f"its colours go from {low:g} to {high:g}, and not to 1, 255 or 65535")
    if colours.dtype == np.uint8:
        return colours.astype(np.float32)
    scale = 255.0 if colours.dtype.kind == "f" and high <= 1 else 1.0 if high <= 255 else 1 / 257
    return (colours * scale).astype(np.float32)


def settled(points: np.ndarray) -> np.ndarray:
    """Places in float32 where the origin is near: nothing is lost that a centred cloud could keep. Else in float64,
    for what centres it: float32 knows UTM's northings to half a metre."""
    if points.dtype.kind == "f" and points.itemsize <= 4:
        return np.ascontiguousarray(points, np.float32)
    precise = np.ascontiguousarray(points, np.float64)
    near = np.abs(precise).max(initial=0) <= NEAR * np.ptp(precise, 0).max(initial=0) if len(precise) else True
    return precise.astype(np.float32) if near else precise
