"""Your own molecules: a file for each, and a CSV table of targets."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS, Dataset, Sample
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Inside, Text
from ndformer.modalities.molecules.formats.files import ENDINGS, read_molecule

FILE, SPLIT = "file", "split"  # columns of the table


class Record(NamedTuple):
    path: Path
    targets: np.ndarray  # (T,) float64, NaN where the table has no value


@DATASETS.register_module()
class MoleculeFolder(Dataset):
    """Molecules in files under data_root, and data_root/targets.csv with a row for each.

    The table has the column `file`, the path of a .xyz, .sdf, .mol or .pdb file with one molecule, and a column for
    each target, named with its unit: "gap (meV)". A column `split` says train, val or test; without it, the seed
    chooses the share `tested` for testing. An empty cell is an unknown value. `targets` selects columns.
    """

    answer = "Values"
    preview_transforms = (dict(type="PackAtoms"),)
    parted_by = ("tested",)

    def __init__(self, *args: Any, targets: Sequence[Text] = (), tested: Inside = 0.1, **kwargs: Any) -> None:
        self.targets, self.tested = list(targets), tested
        super().__init__(*args, **kwargs)

    @property
    def table(self) -> Path:
        return self.data_root / "targets.csv"

    def on_disk(self) -> dict[str, Any]:
        """Return the rows of each split."""
        if not foreign.is_file(self.table):
            raise missing(self.table, "a table with the column file and a column for each target", "your own")
        try:
            rows = list(csv.DictReader(foreign.lines(self.table)))
        except csv.Error as error:
            raise DataError(f"{self.table} cannot be read as a table ({error}). Write it again") from None
        if not rows or FILE not in rows[0]:
            raise DataError(f"{self.table} must have rows and a column '{FILE}'. Its first line names the columns")
        if SPLIT not in rows[0]:
            chosen = np.random.default_rng(self.seed).permutation(len(rows))[: max(1, round(len(rows) * self.tested))]
            test = set(chosen.tolist())
            parts = dict(train=[row for i, row in enumerate(rows) if i not in test])
            return parts | dict(test=[row for i, row in enumerate(rows) if i in test])
        strange = next((row for row in rows if row[SPLIT] not in SPLITS), None)
        if strange is not None:
            raise DataError(f"{self.table}: {SPLIT} must be train, val or test, got '{strange[SPLIT]}'")
        parts = {split: [row for row in rows if row[SPLIT] == split] for split in SPLITS}
        return {split: part for split, part in parts.items() if part}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        if split not in self.disk_splits:
            raise DataError(f"{self.table} has no row of split '{split}'. Add some, or remove the column {SPLIT}")
        rows = self.disk_splits[split]
        columns = [name for name in rows[0] if name not in (FILE, SPLIT, None)] if rows else []
        unknown = next((name for name in self.targets if name not in columns), None)
        if unknown is not None:
            choices = ", ".join(columns)
            raise DataError(f"{self.table} has no column '{unknown}'{nearest(unknown, columns)} It has: {choices}")
        self.classes = self.targets or columns
        if not self.classes:
            raise DataError(f"{self.table} has no column of a target, besides {FILE} and {SPLIT}. Add one")
        return [self._record(row) for row in rows], np.zeros(len(rows), np.int64)

    def _record(self, row: dict[str, Any]) -> Record:
        name = row[FILE] or ""
        if not name.lower().endswith(ENDINGS):
            raise DataError(f"{self.table}: {FILE} must end in one of {', '.join(ENDINGS)}, got '{name:.60}'")
        try:
            values = [float(row[target]) if (row[target] or "").strip() else np.nan for target in self.classes]
        except ValueError as error:
            raise DataError(f"{self.table}: a target of {name} is no number ({error}). Correct it") from None
        return Record(foreign.inside(self.data_root, name), np.array(values, np.float64))

    def read(self, record: Record) -> Sample:
        return dict(molecules=read_molecule(record.path), targets=record.targets, path=str(record.path))

    def sample_files(self, i: int) -> Any:
        return self.records[i].path

    def lengths(self) -> np.ndarray:
        return np.array([len(read_molecule(record.path)) for record in self.records])
