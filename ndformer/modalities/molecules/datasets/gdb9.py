"""QM9 as PyTorch Geometric and DeepChem have it: gdb9.sdf, with properties in gdb9.sdf.csv."""

import csv
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.molecules.datasets.qm9 import QM9, TARGETS
from ndformer.modalities.molecules.datasets.table import Molecules
from ndformer.modalities.molecules.formats.files import READERS

SDF, TABLE, LEFT_OUT = "gdb9.sdf", "gdb9.sdf.csv", "uncharacterized.txt"
_IN_ORDER = "mu alpha homo lumo gap r2 zpve u0 u298 h298 g298 cv"
COLUMNS = dict(zip(TARGETS, _IN_ORDER.split(), strict=True))


@DATASETS.register_module()
class GDB9(QM9):
    """QM9 from data_root/gdb9.sdf and gdb9.sdf.csv, less the molecules that uncharacterized.txt lists, if it is there.

    Targets, units and splits are QM9's. The files are parsed for each run, which takes about a minute.
    """

    def load(self) -> Molecules:
        self.classes = self.targets
        for name in (SDF, TABLE):
            if not foreign.is_file(self.data_root / name):
                raise missing(self.data_root / name, "QM9's molecules and their properties", "gdb9.tar.gz of DeepChem")
        stamps = tuple(foreign.status(self.data_root / name).st_mtime_ns for name in (SDF, TABLE))
        return _load(self.data_root, tuple(self.targets), stamps)

    def sample_files(self, i: int) -> Any:
        return [self.data_root / name for name in (SDF, TABLE)]


@lru_cache(maxsize=1)
def _load(home: Path, targets: tuple[str, ...], stamps: tuple[int, ...]) -> Molecules:
    left_out = _left_out(home / LEFT_OUT)
    try:
        reader = csv.DictReader(_lines(home / TABLE))
        names, values = [], []
        for row in reader:
            names.append(int(row["mol_id"].removeprefix("gdb_")))
            values.append([float(row[COLUMNS[target]]) * TARGETS[target][1] for target in targets])
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
        reason = f"it has no column {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DataError(f"{home / TABLE} cannot be read as the table of QM9 ({reason}). Get it again") from None
    rows, count = [], 0
    try:
        for molecule in READERS[".sdf"](_lines(home / SDF)):
            count += 1
            rows.append(molecule)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"molecule {count + 1} of {home / SDF} cannot be read ({reason}). Get it again") from None
    if len(rows) != len(names):
        raise DataError(f"{home / SDF} has {len(rows)} molecules, and {home / TABLE} {len(names)}. Get both again")
    keep = [i for i, name in enumerate(names) if name not in left_out]
    if not keep:
        raise DataError(f"{home / TABLE} has no molecule that {LEFT_OUT} does not leave out. Get it again")
    chosen = np.concatenate([rows[i] for i in keep])
    atoms = np.array([len(rows[i]) for i in keep])
    return Molecules.create(
        atoms, chosen[:, 0], chosen[:, 1:], np.array([values[i] for i in keep]), np.array([names[i] for i in keep])
    )


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, of which little is kept in memory."""
    with foreign.opened(path) as file:
        yield from foreign.short_lines(file)


def _left_out(path: Path) -> set[int]:
    """Return the numbers of molecules whose geometry did not converge: the first words of lines, less the count."""
    if not foreign.is_file(path):
        return set()
    rows = [line.split() for line in foreign.lines(path, errors="replace")]
    rows = [row for row in rows if row and row[0].isascii() and row[0].isdigit() and len(row[0]) < 10]
    return {int(row[0]) for row in rows if row[1:] != ["compounds"]}
