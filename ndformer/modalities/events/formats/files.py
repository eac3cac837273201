"""Events from a file, whatever its format. Every way that a file can be wrong is one sentence."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.aedat import read_aedat2, read_aedat3
from ndformer.modalities.events.formats.evt_dat import evt_version, read_dat, read_raw
from ndformer.modalities.events.formats.nmnist_bin import read_bin
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.formats.tables import read_hdf5, read_npy, read_npz

Read = TypeVar("Read")
READERS: dict[str, Callable[[Path], Events]] = {
    "AEDAT 2.0": read_aedat2,
    "AEDAT 3.1": read_aedat3,
    "Prophesee DAT": read_dat,
    "Prophesee EVT2": read_raw,
    "Prophesee EVT3": read_raw,
    "N-MNIST": read_bin,
    "NumPy": read_npy,
    "NumPy archive": read_npz,
    "HDF5": read_hdf5,
}
BY_ENDING = {".dat": "Prophesee DAT", ".bin": "N-MNIST", ".npy": "NumPy", ".npz": "NumPy archive"}
BY_ENDING |= dict.fromkeys((".h5", ".hdf5"), "HDF5")
MARKS = {b"#!AER-DAT2": "AEDAT 2.0", b"#!AER-DAT3": "AEDAT 3.1", b"\x89HDF": "HDF5"}  # what they begin with
ENDINGS = (*BY_ENDING, ".aedat", ".raw")


def format_of(path: Path) -> str:
    """By what the file begins with, else by its ending."""
    try:
        with foreign.opened(path) as file:
            begin = file.read(4096)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): give another file") from None
    for mark, name in MARKS.items():
        if begin.startswith(mark):
            return name
    if begin.startswith(b"#!AER-DAT4"):
        raise DataError(f"{path} is AEDAT 4, which is not read here: save its events as an .npz of x, y, t, p")
    if path.suffix.lower() == ".raw":
        lines = [line for line in begin.decode("latin-1").splitlines() if line.startswith("%")]
        return f"Prophesee EVT{evt_version(lines) or 3}"
    if path.suffix.lower() in BY_ENDING:
        return BY_ENDING[path.suffix.lower()]
    raise DataError(
        f"{path} is no events file by its beginning or its name: known are {', '.join(ENDINGS)}; any other becomes an "
        ".npz of x, y, t, p"
    )


def read_events(path: Path) -> Events:
    """All events as they are in the file: neither put in order nor looked at for pixels that the sensor lacks."""
    return checked(path, READERS[format_of(path)])


def checked(path: Path, read: Callable[[Path], Read]) -> Read:
    """read(path), its errors as one sentence."""
    try:
        return read(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} cannot be read as events ({reason}): replace it or take it away") from None
