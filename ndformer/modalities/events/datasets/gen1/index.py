"""Index of GEN1's moments with boxes and the number of events before each, written by tools/prepare_gen1.py.

Without the index, opening a split reads the box files of all recordings, and each sample finds its moment by bisection,
which reads two dozen distant places of a large file: slow on network storage.
"""

import warnings
import zipfile
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic
from ndformer.modalities.events.datasets.gen1.boxes import FAULTY_WIDTH, MIN_DIAGONAL, MIN_SIDE, WARM_UP, Moment
from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR
from ndformer.modalities.events.formats.evt_dat import Dat
from ndformer.modalities.events.formats.files import checked

RULES = [MIN_SIDE, MIN_DIAGONAL, FAULTY_WIDTH, WARM_UP, *SENSOR]


def located(moments: list[Moment]) -> list[Moment]:
    """Return the moments of one recording with their number of events."""
    if not moments:
        return []
    dat = checked(moments[0].recording, Dat)
    return [moment._replace(stop=dat.until(moment.time)) for moment in moments]


def index_path(home: Path) -> Path:
    return home.parent / ".ndformer_cache" / f"gen1_{home.name}.npz"


def stamps(pairs: list[tuple[Path, Path]]) -> np.ndarray:
    """Return sizes and modification times (R, 4) of recordings and boxes, which tell whether the index is current."""
    both = [(recording.stat(), boxes.stat()) for recording, boxes in pairs]
    return np.array([[a.st_size, a.st_mtime_ns, b.st_size, b.st_mtime_ns] for a, b in both], np.int64)


def write_index(
    home: Path, pairs: list[tuple[Path, Path]], by_recording: list[list[Moment]], stamp: np.ndarray
) -> Path:
    """Write the index of a split; `by_recording` has the moments of each recording."""
    moments = [moment for some in by_recording for moment in some]
    path = index_path(home)
    if path.parent.is_symlink():
        raise DataError(f"{path.parent} is a link, but the index must stay in the dataset: remove the link")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as half, half.open("wb") as file:
        np.savez_compressed(
            file,
            rules=RULES,
            names=[recording.name for recording, _ in pairs],
            stamps=stamp,
            recording=np.repeat(np.arange(len(pairs)), [len(some) for some in by_recording]),
            time=np.array([moment.time for moment in moments], np.int64),
            stop=np.array([moment.stop for moment in moments], np.int64),
            count=np.array([len(moment.labels) for moment in moments], np.int64),
            boxes=np.concatenate([np.zeros((0, 4), np.float32), *(moment.boxes for moment in moments)]),
            labels=np.concatenate([np.zeros(0, np.int64), *(moment.labels for moment in moments)]),
        )
    return path


def read_index(home: Path, pairs: list[tuple[Path, Path]]) -> list[Moment] | None:
    """Read the index of a split, or return None where there is none or it does not match the files."""
    path = index_path(home)
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
