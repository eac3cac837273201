"""Reader of events from a file in any supported format. Every error of a file is reported in one sentence."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.aedat import Packets
from ndformer.modalities.events.formats.aedat2 import read_aedat1, read_aedat2
from ndformer.modalities.events.formats.aedat4 import read_aedat4
from ndformer.modalities.events.formats.evt_dat import KINDS, evt_version, read_dat, read_raw
from ndformer.modalities.events.formats.hdf5 import read_hdf5
from ndformer.modalities.events.formats.nmnist_bin import read_bin
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.formats.tables import read_npy, read_npz
from ndformer.modalities.events.formats.text import read_text

Read = TypeVar("Read")
BIN = "N-MNIST or N-Caltech101"
READERS: dict[str, Callable[[Path], Events]] = {
    "AEDAT 1.0": read_aedat1,
    "AEDAT 2.0": read_aedat2,
    "AEDAT 3.1": lambda path: Packets.from_file(path).read(),
    "AEDAT 4.0": read_aedat4,
    "Prophesee DAT": read_dat,
    **{f"Prophesee {kind}": read_raw for kind in KINDS.values()},
    BIN: read_bin,
    "NumPy": read_npy,
    "NumPy archive": read_npz,
    "HDF5": read_hdf5,
    "text": read_text,
}
BY_ENDING = {".dat": "Prophesee DAT", ".bin": BIN, ".npy": "NumPy", ".npz": "NumPy archive"}
BY_ENDING |= dict.fromkeys((".h5", ".hdf5"), "HDF5") | dict.fromkeys((".txt", ".csv"), "text")
MARKS = {b"#!AER-DAT%d" % number: f"AEDAT {version}" for number, version in enumerate(("1.0", "2.0", "3.1", "4.0"), 1)}
MARKS |= {b"\x89HDF": "HDF5"}  # by the first bytes of a file
ENDINGS = (*BY_ENDING, ".aedat", ".aedat2", ".aedat4", ".raw")


def detect_format(path: Path) -> str:
    """Return the format of a file by its first bytes, else by its ending."""
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
    if path.suffix.lower() in (".dat", ".aedat") and begin.startswith(b"#"):
        return "AEDAT 1.0"  # a file from before the version line
    if path.suffix.lower() == ".raw":
        lines = [line for line in begin.decode("latin-1").splitlines() if line.startswith("%")]
        return f"Prophesee {KINDS.get(evt_version(' '.join(lines)) or '', 'EVT3')}"
    if path.suffix.lower() in BY_ENDING:
        return BY_ENDING[path.suffix.lower()]
    raise DataError(
        f"{path} is no events file by its beginning or its name: known are {', '.join(ENDINGS)}; any other becomes an "
        ".npz of x, y, t, p"
    )


def read_events(path: Path) -> Events:
    """Read all events as they are in the file, unsorted and without a check against the sensor."""
    return checked(path, READERS[detect_format(path)])


def checked(path: Path, read: Callable[[Path], Read]) -> Read:
    """Return read(path), with its errors as a DataError of one sentence."""
    try:
        return read(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} cannot be read as events ({reason}): replace it or remove it") from None
