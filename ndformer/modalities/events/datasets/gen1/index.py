"""What tools/prepare_gen1.py keeps: GEN1's moments with boxes, and how many events of a recording come before each.

Without it, opening a split reads the boxes of all its recordings, and each sample looks for its moment by bisection,
two dozen places far apart in a file of hundreds of megabytes: slow where the disk is far away.
"""

import warnings
import zipfile
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic
from ndformer.modalities.events.datasets.gen1.boxes import FAULTY_WIDTH, LEAST_DIAGONAL, LEAST_SIDE, WARM_UP, Moment
from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR
from ndformer.modalities.events.formats.evt_dat import Dat
from ndformer.modalities.events.formats.files import checked

RULES = [LEAST_SIDE, LEAST_DIAGONAL, FAULTY_WIDTH, WARM_UP, *SENSOR]


def located(moments: list[Moment]) -> list[Moment]:
    """Those of one recording, looked for in it."""
    if not moments:
        return []
    dat = checked(moments[0].recording, Dat)
    return [moment._replace(stop=dat.until(moment.time)) for moment in moments]


def place(home: Path) -> Path:
    return home.parent / ".ndformer_cache" / f"gen1_{home.name}.npz"


def stamps(pairs: list[tuple[Path, Path]]) -> np.ndarray:
    """(R, 4) sizes and times of change of recordings and boxes: as long as they are the same, so are the moments."""
    both = [(recording.stat(), boxes.stat()) for recording, boxes in pairs]
    return np.array([[a.st_size, a.st_mtime_ns, b.st_size, b.st_mtime_ns] for a, b in both], np.int64)


def keep(home: Path, pairs: list[tuple[Path, Path]], found: list[list[Moment]], stamp: np.ndarray) -> Path:
    """`found` has the moments of each recording."""
    moments = [moment for some in found for moment in some]
    path = place(home)
    if path.parent.is_symlink():
        raise DataError(f"{path.parent} is a link, and what is kept of a dataset stays in it: take the link away")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as half, half.open("wb") as file:
        np.savez_compressed(
            file,
            rules=RULES,
            names=[recording.name for recording, _ in pairs],
            stamps=stamp,
            recording=np.repeat(np.arange(len(pairs)), [len(some) for some in found]),
            time=np.array([moment.time for moment in moments], np.int64),
            stop=np.array([moment.stop for moment in moments], np.int64),
            count=np.array([len(moment.labels) for moment in moments], np.int64),
            boxes=np.concatenate([np.zeros((0, 4), np.float32), *(moment.boxes for moment in moments)]),
            labels=np.concatenate([np.zeros(0, np.int64), *(moment.labels for moment in moments)]),
        )
    return path


def kept(home: Path, pairs: list[tuple[Path, Path]]) -> list[Moment] | None:
    """None where nothing is kept, or not of these files as they are."""
    path = place(home)
    if not path.is_file():
        return None
    try:
        table = foreign.arrays(path)
        same = table["names"].tolist() == [recording.name for recording, _ in pairs]
        if same and np.array_equal(table["stamps"], stamps(pairs)) and table["rules"].tolist() == RULES:
            ends = np.cumsum(table["count"])[:-1]
            boxes, labels = np.split(table["boxes"], ends), np.split(table["labels"], ends)
            rows = zip(table["recording"].tolist(), table["time"].tolist(), table["stop"].tolist(), boxes, labels)
            return [Moment(pairs[row[0]][0], *row[1:]) for row in rows]
        reason = "of other files than are there now"
    except (OSError, ValueError, EOFError, KeyError, IndexError, zipfile.BadZipFile):
        reason = "damaged"
    warnings.warn(f"{path} is {reason} and not used: tools/prepare_gen1.py {home.parent} makes it anew", stacklevel=2)
    return None
