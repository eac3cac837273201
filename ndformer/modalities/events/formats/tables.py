"""Reader of events as tables of x, y, t and p: structured .npy, and .npz of four columns or one structured table.

Times are whole microseconds, or seconds where they have fractions (MVSEC, E2VID). An .npz may also have the sensor's
height and width.
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
SIZES = ("height", "width", *PAIRS)  # names of sensor sizes
DAY = 86_400.0

LATEST = 1 << 62  # so that time differences fit in 64 bits


def columns(table: Mapping[str, Any] | np.ndarray, names: list[str], sizes: Sequence[cameras.Size] = ()) -> Events:
    """Create events from arrays under any of their common names; without `sizes` the sensor is guessed."""
    arrays: dict[str, np.ndarray] = {}
    for column, aliases in NAMES.items():
        name = next((name for name in aliases if name in names), None)
        if name is None:
            raise ValueError(f"it has no column {column}, but {', '.join(names) or 'none'}")
        values = np.asarray(table[name])
        if values.ndim != 1:
            raise ValueError(f"its column {name} holds {values.dtype} of shape {values.shape} and not numbers (N,)")
        arrays[column] = microseconds(values, name) if column == "t" else integers(values, name)
    lengths = {len(values) for values in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"its columns have {' and '.join(map(str, sorted(lengths)))} rows")
    for axis in "xy":
        if len(arrays[axis]) and not (arrays[axis].min() >= 0 and arrays[axis].max() < 1 << 16):
            raise ValueError(f"its {axis} reaches from {arrays[axis].min()} to {arrays[axis].max()}")
    if len(arrays["t"]) and not -LATEST < int(arrays["t"].min()) <= int(arrays["t"].max()) < LATEST:
        raise ValueError(f"its t reaches from {arrays['t'].min()} to {arrays['t'].max()}, which are no microseconds")
    height, width = pick_size(sizes, arrays["x"], arrays["y"])
    return Events.from_arrays(arrays["x"], arrays["y"], arrays["t"], arrays["p"] > 0, height, width)


def pick_size(sizes: Sequence[cameras.Size], x: np.ndarray, y: np.ndarray) -> cameras.Size:
    """Return the first of the sizes that contains the events; without any, a guess."""
    reached = cameras.extent(x, y)
    if not sizes:
        return cameras.guess_size(reached)
    return next((size for size in sizes if cameras.smallest(reached, (size,))), sizes[0])


def integers(values: np.ndarray, name: str) -> np.ndarray:
    """Check that values are integers; integers stored as floats are accepted."""
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.rint(values)).all()):
        raise ValueError(f"its column {name} holds {values.dtype} with fractions and not whole numbers")
    if values.dtype.kind not in "iubf":
        raise ValueError(f"its column {name} holds {values.dtype} and not whole numbers")
    return values


def microseconds(values: np.ndarray, name: str) -> np.ndarray:
    """Convert integers (microseconds) or floats with fractions (seconds) to microseconds."""
    if values.dtype.kind != "f":
        return integers(values, name)
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
    """Return the sensor sizes that a file may mean, from height and width, or from a pair in either order."""
    sides = [_numbers(table.get(name)) for name in ("height", "width")]
    if all(len(side) == 1 for side in sides):
        return [cameras.check_size(int(sides[0][0]), int(sides[1][0]))]
    pairs = [pair for name in PAIRS if len(pair := _numbers(table.get(name))) >= 2]
    return [cameras.check_size(int(pair[i]), int(pair[1 - i])) for pair in pairs[:1] for i in (0, 1)]


def _numbers(value: Any) -> np.ndarray:
    values = np.zeros(0) if value is None else np.asarray(value).reshape(-1)
    if values.dtype.kind in "iu" or (values.dtype.kind == "f" and np.isfinite(values).all()):
        return values
    return values[:0]


def to_events(value: Any) -> Events:
    """Convert a structured array, or columns by name with the sensor's height and width, to events."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        return columns(value, list(value.dtype.names))
    if not isinstance(value, Mapping):
        got = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ValueError(
            f"events must be a dict or a structured array of x, y, t and p, a dict with height and width too, got {got}"
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
    foreign.check_size(path, EVENT * max((len(table) for table in tables.values() if table.ndim), default=0))
    for table in tables.values():
        if table.dtype.names:
            return columns(table, list(table.dtype.names), sizes_in(tables))
    return columns(tables, list(tables), sizes_in(tables))
