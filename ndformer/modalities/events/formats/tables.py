"""Events as tables of x, y, t and p: structured .npy, and .npz of four columns or of one table with these fields.

Times are whole microseconds, or seconds where they have fractions (MVSEC, E2VID). An .npz may have the sensor's height
and width beside the columns.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats import cameras
from ndformer.modalities.events.formats.stream import EVENT, Events

NAMES = dict(
    x=("x", "xs"),
    y=("y", "ys"),
    t=("t", "ts", "time", "timestamp", "timestamps"),
    p=("p", "ps", "pol", "polarity", "polarities"),
)
PAIRS = ("sensor_resolution", "sensor_size", "resolution")
SIZES = ("height", "width", *PAIRS)  # what else a file may say
DAY = 86_400.0

LATEST = 1 << 62  # so that differences of times fit in 64 bits


def columns(table: Mapping[str, Any] | np.ndarray, names: list[str], sizes: Sequence[cameras.Size] = ()) -> Events:
    """Of arrays under any of their usual names. Without a size, that of the known sensor that they nearly fill."""
    found: dict[str, np.ndarray] = {}
    for column, aliases in NAMES.items():
        name = next((name for name in aliases if name in names), None)
        if name is None:
            raise ValueError(f"it has no column {column}, but {', '.join(names) or 'none'}")
        values = np.asarray(table[name])
        if values.ndim != 1:
            raise ValueError(f"its column {name} holds {values.dtype} of shape {values.shape} and not numbers (N,)")
        found[column] = microseconds(values, name) if column == "t" else whole(values, name)
    lengths = {len(values) for values in found.values()}
    if len(lengths) > 1:
        raise ValueError(f"its columns have {' and '.join(map(str, sorted(lengths)))} rows")
    for axis in "xy":
        if len(found[axis]) and not (found[axis].min() >= 0 and found[axis].max() < 1 << 16):
            raise ValueError(f"its {axis} reaches from {found[axis].min()} to {found[axis].max()}")
    if len(found["t"]) and not -LATEST < int(found["t"].min()) <= int(found["t"].max()) < LATEST:
        raise ValueError(f"its t reaches from {found['t'].min()} to {found['t'].max()}, which are no microseconds")
    height, width = fitting(sizes, found["x"], found["y"])
    return Events.of(found["x"], found["y"], found["t"], found["p"] > 0, height, width)


def fitting(sizes: Sequence[cameras.Size], x: np.ndarray, y: np.ndarray) -> cameras.Size:
    """The first of those that a file may mean on which its events lie."""
    reached = cameras.reached(x, y)
    if not sizes:
        return cameras.likely(reached)
    return next((size for size in sizes if cameras.smallest(reached, (size,))), sizes[0])


def whole(values: np.ndarray, name: str) -> np.ndarray:
    """Whole numbers, also where they are kept as others."""
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.rint(values)).all()):
        raise ValueError(f"its column {name} holds {values.dtype} with fractions and not whole numbers")
    if values.dtype.kind not in "iubf":
        raise ValueError(f"its column {name} holds {values.dtype} and not whole numbers")
    return values


def microseconds(values: np.ndarray, name: str) -> np.ndarray:
    """Of microseconds, or of seconds, where times have fractions."""
    if values.dtype.kind != "f":
        return whole(values, name)
    if not (np.isfinite(values).all() and (np.abs(values) < LATEST).all()):
        raise ValueError(f"its column {name} holds times that are no numbers")
    if (values == np.rint(values)).all():
        return values.astype(np.int64)
    if np.ptp(values) > DAY:
        raise ValueError(f"its column {name} has fractions and spans {np.ptp(values):g}: write whole microseconds")
    if np.abs(values).max() * 1e6 >= LATEST:
        raise ValueError(f"its column {name} reaches to {np.abs(values).max():g}, which are no seconds")
    if values.dtype.itemsize < 8 and np.spacing(np.abs(values).max()) > 1e-4:
        raise ValueError(f"its column {name} holds {values.dtype}, which cannot tell such times apart: write float64")
    return np.rint(values.astype(np.float64) * 1e6).astype(np.int64)


def sizes_in(table: Mapping[str, Any]) -> list[cameras.Size]:
    """What a file may mean by its sensor's height and width, or by a pair, of which either may come first."""
    sides = [_numbers(table.get(name)) for name in ("height", "width")]
    if all(len(one) == 1 for one in sides):
        return [cameras.checked(int(sides[0][0]), int(sides[1][0]))]
    pairs = [one for name in PAIRS if len(one := _numbers(table.get(name))) >= 2]
    return [cameras.checked(int(one[i]), int(one[1 - i])) for one in pairs[:1] for i in (0, 1)]


def _numbers(value: Any) -> np.ndarray:
    found = np.zeros(0) if value is None else np.asarray(value).reshape(-1)
    return found if found.dtype.kind in "iu" or (found.dtype.kind == "f" and np.isfinite(found).all()) else found[:0]


def held_events(value: Any) -> Events:
    """Of what is in memory: a structured array, or columns by their names, with the sensor's height and width."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        return columns(value, list(value.dtype.names))
    if not isinstance(value, Mapping):
        got = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ValueError(
            f"events are a dict or a structured array of x, y, t and p, a dict with height and width too, got {got}"
        )
    return columns(value, list(value), sizes_in(value))


def read_npy(path: Path) -> Events:
    table = foreign.array(path, mapped=True)
    if table.dtype.names is None:
        raise ValueError(
            f"it holds {table.dtype} of shape {table.shape}: columns x, y, t, p must have their "
            "names, as in docs/get-started/custom-recordings.md"
        )
    foreign.check_size(path, EVENT * table.size)
    return columns(table, list(table.dtype.names))


def read_npz(path: Path) -> Events:
    tables = foreign.arrays(path)
    foreign.check_size(path, EVENT * max((len(one) for one in tables.values() if one.ndim), default=0))
    for one in tables.values():
        if one.dtype.names:
            return columns(one, list(one.dtype.names), sizes_in(tables))
    return columns(tables, list(tables), sizes_in(tables))
