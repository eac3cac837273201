"""QM9 as PyTorch Geometric and DeepChem have it: gdb9.sdf, with properties in gdb9.sdf.csv."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.molecules.datasets.originals import Entry, OriginalQM9, read_lines
from ndformer.modalities.molecules.datasets.qm9 import TARGETS
from ndformer.modalities.molecules.formats.sdf import titled_molecules
from ndformer.modalities.molecules.formats.xyz import number

SDF, TABLE = "gdb9.sdf", "gdb9.sdf.csv"
_IN_ORDER = "mu alpha homo lumo gap r2 zpve u0 u298 h298 g298 cv"
COLUMNS = {column: name for (column, _), name in zip(TARGETS.values(), _IN_ORDER.split(), strict=True)}


@DATASETS.register_module()
class GDB9(OriginalQM9):
    """QM9 from data_root/gdb9.sdf and gdb9.sdf.csv, less the molecules that uncharacterized.txt lists, if it is there.

    Targets, units and splits are QM9's. The files are parsed for each run, which takes about a minute.
    """

    files = (SDF, TABLE)
    source = "gdb9.tar.gz of DeepChem"

    @classmethod
    def entries(cls, home: Path) -> Iterator[Entry]:
        table = _table(home / TABLE)
        count = 0
        for title, rows in titled_molecules(read_lines(home / SDF)):
            if count < len(table):
                index, values = table[count]
                if re.fullmatch(r"gdb_\d+", title) and title != f"gdb_{index}":
                    raise ValueError(f"expected gdb_{index}, as in the same row of {TABLE}, got {title:.60}")
                yield Entry(index, rows, values)
            count += 1
        if count != len(table):
            raise DataError(f"{home / SDF} has {count} molecules, and {home / TABLE} {len(table)}. Get both again")


def _table(path: Path) -> list[tuple[int, dict[str, float]]]:
    """Return index and values of each row."""
    try:
        return [
            (
                int(row["mol_id"].removeprefix("gdb_")),
                {column: number(row[name]) for column, name in COLUMNS.items()},
            )
            for row in csv.DictReader(read_lines(path))
        ]
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
        reason = f"it has no column {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DataError(f"{path} cannot be read as the table of QM9 ({reason}). Get it again") from None
