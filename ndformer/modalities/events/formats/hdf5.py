"""Reader of events in HDF5, in the common layouts.

    x, y, t, p          in the file itself, or in `events` or `CD/events` (DSEC's with `t_offset`), under any common
                        names: xs, ys, ts, ps are E2VID's
    events, CD/events   one table with these fields, Prophesee's
    events              (N, 4) integers t, x, y, p: v2e's
    davis/left/events   (N, 4) x, y, t, p: MVSEC's left camera

The sensor's size is in `height` and `width` next to the events, or in an attribute: sensor_resolution, geometry.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.events.formats import cameras
from ndformer.modalities.events.formats.stream import EVENT, Events
from ndformer.modalities.events.formats.tables import NAMES, SIZES, columns, sizes_in

GROUPS = ("CD/events/", "events/", "")
LATEST = 2**62  # microseconds
ROWS = {"davis/left/events": "xytp", "events": "txyp"}  # order of four unnamed columns


def read_hdf5(path: Path) -> Events:
    tables = foreign.tables(path)
    for place in ("CD/events", "events"):
        if place in tables and tables[place].dtype.names:
            foreign.check_size(path, (EVENT + tables[place].dtype.itemsize) * tables[place].shape[0])
            table = foreign.read_tables(path, [place])[place]
            return columns(table, list(table.dtype.names or ()), written(path, tables))
    for place, order in ROWS.items():
        if place in tables and len(tables[place].shape) == 2 and tables[place].shape[1] == 4:
            foreign.check_size(path, (EVENT + 4 * tables[place].dtype.itemsize) * tables[place].shape[0])
            table = foreign.read_tables(path, [place])[place]
            return columns(dict(zip(order, table.T)), list(order), written(path, tables))
    for group in GROUPS:
        inside = {name.removeprefix(group): table for name, table in tables.items() if name.startswith(group)}
        if any(name in inside for name in NAMES["x"]):
            names = [name for name, table in inside.items() if "/" not in name and len(table.shape) == 1]
            used = [name for name in names if any(name in aliases for aliases in NAMES.values())]
            foreign.check_size(path, sum((EVENT // 4 + inside[n].dtype.itemsize) * inside[n].shape[0] for n in used))
            read = foreign.read_tables(path, [group + name for name in used])
            events = columns({name: read[group + name] for name in used}, used, written(path, tables))
            t = events.t + offset(path, tables)
            return Events(events.x, events.y, t, events.p, events.height, events.width)
    raise ValueError(f"no events are in it, only {foreign.printable(', '.join(tables)) or 'nothing'}")


def offset(path: Path, tables: dict[str, foreign.Table]) -> int:
    """Return the microseconds that are added to DSEC's times."""
    if "t_offset" not in tables:
        return 0
    table = tables["t_offset"]
    if table.dtype.kind not in "iu" or np.prod(table.shape) != 1:
        got = f"{table.dtype} of shape {tuple(table.shape)}"
    else:
        got = int(foreign.read_tables(path, ["t_offset"])["t_offset"].reshape(-1)[0])
        if abs(got) < LATEST:
            return got
    raise ValueError(f"its t_offset must be one integer of microseconds below 2**62, got {got}")


def written(path: Path, tables: dict[str, foreign.Table]) -> list[cameras.Size]:
    """Return the sensor sizes that the file may mean."""
    places = [group + name for group in GROUPS for name in SIZES if group + name in tables]
    small = [place for place in places if np.prod(tables[place].shape) <= 2]
    values: dict[str, Any] = {
        place.rpartition("/")[2]: value for place, value in foreign.read_tables(path, small).items()
    }
    notes = foreign.notes(path)
    geometry = cameras.parse_size(f"geometry {notes.get('geometry', '')}")
    return sizes_in(notes | values) or ([geometry] if geometry else [])
