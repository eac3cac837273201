"""Base class of QM9 in formats that are parsed molecule by molecule."""

import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.datasets.qm9 import QM9, TARGETS
from ndformer.modalities.molecules.datasets.table import Molecules, check_distinct
from ndformer.modalities.molecules.formats.xyz import number

LEFT_OUT = "uncharacterized.txt"


class Entry(NamedTuple):
    """A molecule of QM9."""

    number: int  # in the original set, from 1
    rows: np.ndarray  # (n, 4), or (n, 5) with charges
    values: dict[str, Any]  # column of the file of arrays -> number, or its text


class OriginalQM9(QM9):
    """Base class of QM9 in other formats: implement `entries`, and name `files` and their `source`.

    Molecules are sorted by index, so that the splits are the same in all formats, less those that uncharacterized.txt
    lists, if it is there.
    """

    files: ClassVar[tuple[str, ...]]
    source: ClassVar[str]

    @classmethod
    def entries(cls, home: Path) -> Iterator[Entry]:
        """Yield the molecules; raise DataError, ValueError, OSError or EOFError."""
        raise NotImplementedError

    def load(self) -> Molecules:
        self.classes = self.targets
        tensor = next((name for name in self.targets if name not in TARGETS), None)
        if tensor is not None:
            raise DataError(
                f"the target '{tensor}' is of polarizability tensors, which the file of arrays qm9.npz has and "
                f"{self.files[0]} has not. Use QM9, or another target"
            )
        for name in self.files:
            if not foreign.is_file(self.data_root / name):
                raise missing(self.data_root / name, "QM9's molecules and their properties", self.source)
        stamps = tuple(foreign.status(self.data_root / name).st_mtime_ns for name in self.files)
        return _load(type(self), self.data_root, tuple(self.targets), stamps)

    def sample_files(self, i: int) -> Any:
        return [self.data_root / name for name in self.files]


@lru_cache(maxsize=1)
def _load(kind: type[OriginalQM9], home: Path, targets: tuple[str, ...], stamps: tuple[int, ...]) -> Molecules:
    source, left_out, count = home / kind.files[0], _read_excluded(home / LEFT_OUT), 0
    index, rows, table = [], [], []
    try:
        for entry in kind.entries(home):
            count += 1
            if entry.number not in left_out:
                index.append(entry.number)
                rows.append(entry.rows)
                table.append([number(str(entry.values[TARGETS[name][0]])) * TARGETS[name][1] for name in targets])
    except (KeyError, ValueError, TypeError, OSError, EOFError, zlib.error) as error:
        reason = f"it has no column {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DataError(f"molecule {count + 1} of {source} cannot be read ({reason}). Get it again") from None
    if not index:
        raise DataError(f"{source} has no molecule that {LEFT_OUT} does not leave out. Get it again")
    check_distinct(index, f"{source}: the index")
    order = np.argsort(index, kind="stable")
    width = min(molecule.shape[1] for molecule in rows)  # 5 if all have charges
    atoms, chosen = np.array([len(rows[i]) for i in order]), np.concatenate([rows[i][:, :width] for i in order])
    values = np.array(table, np.float64)[order]  # (M, T)
    if not np.isfinite(values).all():
        raise DataError(f"{source} has targets that are not finite. Get it again")
    charges = chosen[:, 4] if width == 5 else None
    return Molecules.create(atoms, chosen[:, 0], chosen[:, 1:4], values, np.array(index)[order], charges)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, of which little is kept in memory."""
    with foreign.opened(path) as file:
        yield from foreign.short_lines(file)


def _read_excluded(path: Path) -> set[int]:
    """Return the numbers of molecules whose geometry did not converge: the first words of lines, less the count."""
    if not foreign.is_file(path):
        return set()
    rows = [line.split() for line in foreign.lines(path, errors="replace")]
    rows = [row for row in rows if row and row[0].isascii() and row[0].isdigit() and len(row[0]) < 10]
    return {int(row[0]) for row in rows if row[1:] != ["compounds"]}
