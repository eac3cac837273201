"""Events as tables of x, y, t and p: structured .npy, .npz, and HDF5 in the layouts that are about.

.npz: four columns, or one table with these fields. HDF5: x, y, t, p as datasets of the file itself or of `events` (with
`t_offset`, DSEC's), or one dataset with these fields, `events` or `CD/events`. Times are whole microseconds.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.modalities.events.formats.stream import Events

NAMES = dict(x=("x",), y=("y",), t=("t", "ts", "timestamp", "timestamps"), p=("p", "pol", "polarity", "polarities"))

LATEST = 1 << 62  # so that differences of times fit in 64 bits
MOST = 2000  # bytes that one byte of a compressed file can hold; deflate reaches 1032


def columns(table: Mapping[str, Any], names: list[str], size: tuple[int, int] | None = None) -> Events:
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
    try:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # the header is Python, and its parser raises what Python's does
        if "pickle" in str(error):  # numpy's guess about whatever is no array of numbers, and no good advice
            raise ValueError("it is no array of numbers") from None
        raise ValueError(f"its header is damaged: {error}") from None
    if table.dtype.names is None:
        raise ValueError(
            f"it holds {table.dtype} of shape {table.shape}: columns x, y, t, p must have their "
            "names, as in docs/custom-recordings.md"
        )
    return columns(table, list(table.dtype.names))


def read_npz(path: Path) -> Events:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as table:  # closed where numpy would forget to
        one = table[table.files[0]] if len(table.files) == 1 else None
        if one is not None and one.dtype.names:
            return columns(one, list(one.dtype.names))
        return columns(table, list(table.files))


def read_hdf5(path: Path) -> Events:
    try:
        import h5py
    except ImportError:
        raise ValueError("HDF5 needs h5py: pip install 'ndformer[hdf5]'") from None
    try:
        with h5py.File(path, "r") as file:
            return _found(file, h5py, MOST * path.stat().st_size)
    except (ValueError, OSError, MemoryError):
        raise
    except Exception as error:  # h5py raises anything, from KeyError to TypeError, where links and types are damaged
        raise ValueError(f"its structure is damaged: {error}") from None


def _found(file: Any, h5py: Any, most: int) -> Events:
    """In groups as Prophesee, DSEC and others lay them out, where they hold no more than `most` bytes."""

    def whole(dataset: Any) -> Any:
        if dataset.nbytes > most:
            raise ValueError(f"its {dataset.name} says to hold {dataset.nbytes} bytes, more than such a file can")
        return dataset[:]

    for name in ("CD/events", "events", "/"):
        if name not in file:
            continue
        table = file[name]
        if isinstance(table, h5py.Dataset) and table.dtype.names:
            return columns(whole(table), list(table.dtype.names))
        if "x" in table:
            names = [key for key in table if isinstance(table[key], h5py.Dataset) and table[key].ndim == 1]
            events = columns({key: whole(table[key]) for key in names}, names)
            offset = int(np.asarray(file["t_offset"])) if "t_offset" in file else 0
            return Events(events.x, events.y, events.t + offset, events.p, events.height, events.width)
    raise ValueError(f"no events are in it, only {', '.join(map(str, file)) or 'nothing'}")
