"""Events as tables of x, y, t and p: structured .npy, .npz, and HDF5 in the layouts that are about.

.npz: four columns, or one table with these fields. HDF5: x, y, t, p as datasets of the file itself or of `events` (with
`t_offset`, DSEC's), or one dataset with these fields, `events` or `CD/events`. Times are whole microseconds.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats.stream import EVENT, Events

NAMES = dict(x=("x",), y=("y",), t=("t", "ts", "timestamp", "timestamps"), p=("p", "pol", "polarity", "polarities"))

LATEST = 1 << 62  # so that differences of times fit in 64 bits


def columns(table: Mapping[str, Any] | np.ndarray, names: list[str], size: tuple[int, int] | None = None) -> Events:
    """Of arrays under any of their usual names."""
    found: dict[str, np.ndarray] = {}
    for column, aliases in NAMES.items():
        name = next((name for name in aliases if name in names), None)
        if name is None:
            raise ValueError(f"it has no column {column}, but {', '.join(names) or 'none'}")
        values = np.asarray(table[name])
        if values.dtype.kind not in "iub" or values.ndim != 1:
            raise ValueError(
                f"its column {name} holds {values.dtype} of shape {values.shape} and not whole numbers (N,)"
            )
        found[column] = values
    lengths = {len(values) for values in found.values()}
    if len(lengths) > 1:
        raise ValueError(f"its columns have {' and '.join(map(str, sorted(lengths)))} rows")
    for axis in "xy":
        if len(found[axis]) and not (found[axis].min() >= 0 and found[axis].max() < 1 << 16):
            raise ValueError(f"its {axis} reaches from {found[axis].min()} to {found[axis].max()}")
    if len(found["t"]) and not -LATEST < int(found["t"].min()) <= int(found["t"].max()) < LATEST:
        raise ValueError(f"its t reaches from {found['t'].min()} to {found['t'].max()}, which are no microseconds")
    height, width = size or tuple(int(found[axis].max(initial=0)) + 1 for axis in "yx")
    return Events.of(found["x"], found["y"], found["t"], found["p"] > 0, height, width)


def read_npy(path: Path) -> Events:
    table = foreign.array(path, mapped=True)
    if table.dtype.names is None:
        raise ValueError(
            f"it holds {table.dtype} of shape {table.shape}: columns x, y, t, p must have their "
            "names, as in docs/custom-recordings.md"
        )
    foreign.check_size(path, EVENT * table.size)
    return columns(table, list(table.dtype.names))


def read_npz(path: Path) -> Events:
    tables = foreign.arrays(path)
    foreign.check_size(path, EVENT * max((len(one) for one in tables.values() if one.ndim), default=0))
    one = next(iter(tables.values())) if len(tables) == 1 else None
    if one is not None and one.dtype.names:
        return columns(one, list(one.dtype.names))
    return columns(tables, list(tables))


def read_hdf5(path: Path) -> Events:
    """In groups as Prophesee, DSEC and others lay them out."""
    tables = foreign.tables(path)
    for place in ("CD/events", "events"):
        if place in tables and tables[place].dtype.names:
            foreign.check_size(path, (EVENT + tables[place].dtype.itemsize) * tables[place].shape[0])
            table = foreign.read_tables(path, [place])[place]
            return columns(table, list(table.dtype.names or ()))
    for group in ("CD/events/", "events/", ""):
        inside = {name.removeprefix(group): one for name, one in tables.items() if name.startswith(group)}
        if "x" in inside:
            names = [name for name, one in inside.items() if "/" not in name and len(one.shape) == 1]
            used = [name for name in names if any(name in aliases for aliases in NAMES.values())]
            foreign.check_size(path, sum((EVENT // 4 + inside[n].dtype.itemsize) * inside[n].shape[0] for n in used))
            read = foreign.read_tables(path, [group + name for name in used])
            events = columns({name: read[group + name] for name in used}, used)
            offset = int(foreign.read_tables(path, ["t_offset"])["t_offset"]) if "t_offset" in tables else 0
            return Events(events.x, events.y, events.t + offset, events.p, events.height, events.width)
    raise ValueError(f"no events are in it, only {foreign.printable(', '.join(tables)) or 'nothing'}")
