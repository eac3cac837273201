"""Your own molecules: a file for each, and a CSV table of targets."""

import csv
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.components import groups, incomplete
from ndformer.framework.data.dataset import SPLITS, Dataset, Sample
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Inside, Text
from ndformer.modalities.molecules.datasets.table import check_distinct
from ndformer.modalities.molecules.formats.files import ENDINGS, read_molecule
from ndformer.modalities.molecules.formats.xyz import number

TABLE = "targets.csv"
FILE, SPLIT = "file", "split"  # its columns
MIN_ROWS = 2  # without a column `split`


class Record(NamedTuple):
    path: Path
    targets: np.ndarray  # (T,) float64, NaN where the table has no value


@DATASETS.register_module()
class MoleculeFolder(Dataset):
    """Molecules in files under data_root, and data_root/targets.csv with a row for each.

    The table has the column `file`, the path of a .xyz, .sdf, .mol or .pdb file with one molecule, and a column for
    each target, named with its unit: "gap (meV)". A column `split` says train, val or test; without it, the seed
    chooses the share `tested` for testing. An empty cell is an unknown value. `targets` selects columns. Components of
    a vector or a tensor (framework/data/components.py) rotate with the molecule.
    """

    answer = "Values"
    preview_transforms = (dict(type="PackAtoms"),)
    parted_by = ("tested",)

    def __init__(self, *args: Any, targets: Sequence[Text] = (), tested: Inside = 0.1, **kwargs: Any) -> None:
        check_distinct(targets, "MoleculeFolder: the target")
        self.targets, self.tested = list(targets), tested
        super().__init__(*args, **kwargs)

    @property
    def table(self) -> Path:
        return self.data_root / TABLE

    def on_disk(self) -> dict[str, Any]:
        """Return the rows of each split."""
        if not foreign.is_file(self.table):
            raise missing(self.table, "a table with the column file and a column for each target", "your own")
        self.columns, rows = read_table(self.table)
        if SPLIT not in self.columns:
            if len(rows) < MIN_ROWS:
                raise DataError(
                    f"{self.table}: expected {MIN_ROWS} rows or more, for training and testing, got "
                    f"{len(rows)}. Add rows, or a column {SPLIT}"
                )
            chosen = np.random.default_rng(self.seed).permutation(len(rows))[: max(1, round(len(rows) * self.tested))]
            test = set(chosen.tolist())
            parts = dict(train=[row for i, row in enumerate(rows) if i not in test])
            return parts | dict(test=[row for i, row in enumerate(rows) if i in test])
        strange = next((row for row in rows if row[SPLIT] not in SPLITS), None)
        if strange is not None:
            raise DataError(
                f"{self.table}: {SPLIT} of {strange[FILE]:.60} must be train, val or test, got '{strange[SPLIT]:.60}'"
            )
        parts = {split: [row for row in rows if row[SPLIT] == split] for split in SPLITS}
        return {split: part for split, part in parts.items() if part}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        if split not in self.disk_splits:
            raise DataError(f"{self.table} has no row of split '{split}'. Add some, or remove the column {SPLIT}")
        rows = self.disk_splits[split]
        columns = [name for name in self.columns if name not in (FILE, SPLIT)]
        unknown = next((name for name in self.targets if name not in columns), None)
        if unknown is not None:
            choices = ", ".join(columns)
            raise DataError(f"{self.table} has no column '{unknown}'{nearest(unknown, columns)} It has: {choices}")
        self.classes = self.targets or columns
        if not self.classes:
            raise DataError(f"{self.table} has no column of a target, besides {FILE} and {SPLIT}. Add one")
        if split == "train" and (alone := incomplete(self.classes)):
            warnings.warn(
                f"{self.table}: of the vector or tensor of {', '.join(alone)}, other components are missing or not "
                "selected. Rotated molecules have wrong targets then: select all components, rename the columns, or "
                "train without RotateAtoms",
                stacklevel=2,
            )
        self.components = groups(self.classes)
        return [self._record(row) for row in rows], np.zeros(len(rows), np.int64)

    def _record(self, row: dict[str, str]) -> Record:
        name = row[FILE]
        if not name.lower().endswith(ENDINGS):
            raise DataError(f"{self.table}: {FILE} must end in one of {', '.join(ENDINGS)}, got '{name:.60}'")
        values = []
        for target in self.classes:
            try:
                values.append(number(row[target]) if row[target] else np.nan)
            except ValueError as error:
                other_columns = [column for column in self.classes if column != target]
                raise DataError(
                    f"{self.table}: the target '{target:.60}' of {name} must be a number ({error}). Correct it, or "
                    "select columns with dataset.targets",
                    f'--cfg-options "dataset.targets={other_columns}"' if other_columns else "",
                ) from None
        return Record(foreign.inside(self.data_root, name), np.array(values, np.float64))

    def read(self, record: Record) -> Sample:
        if not foreign.is_file(record.path):
            raise DataError(f"{record.path} is missing, which {self.table} names. Add the file, or remove the row")
        molecule, components = read_molecule(record.path), self.components
        return dict(molecules=molecule, targets=record.targets, components=components, path=str(record.path))

    def shuffle_labels(self) -> None:
        """Give each molecule the targets of another one, for a control experiment."""
        self.label_override = np.random.default_rng((self.seed, len(self))).permutation(len(self))

    def _with_label(self, sample: Sample, label: int) -> Sample:
        return sample | dict(targets=self.records[label].targets)

    def sample_files(self, i: int) -> Any:
        return self.records[i].path

    def lengths(self) -> np.ndarray:
        return np.array([self._length(record) for record in self.records])

    def _length(self, record: Record) -> int:
        try:
            return len(self.read(record)["molecules"])
        except DataError:
            if not self.skip_bad:
                raise
            return -1


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of a table, without blanks around cells. Raise DataError."""
    reader = csv.reader(foreign.lines(path), skipinitialspace=True)
    try:
        lines = [(reader.line_num, cells) for row in reader if any(cells := [cell.strip() for cell in row])]
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as a table ({error}). Write it again") from None
    columns = lines[0][1] if lines else []
    if FILE not in columns or len(lines) < 2:
        names = f"the columns {', '.join(map(repr, columns))}" if columns else "no columns"
        raise DataError(
            f"{path} must have rows and a column '{FILE}', got {names} and {max(0, len(lines) - 1)} rows. "
            "Its first line names the columns, separated by commas"
        )
    wrong = next((line for line in lines if len(line[1]) != len(columns)), None)
    if wrong is not None:
        raise DataError(
            f"{path}, line {wrong[0]}: expected {len(columns)} cells, as the first line has, got "
            f"{len(wrong[1])}. Write decimals with a point, and an empty cell for an unknown value"
        )
    rows = [dict(zip(columns, cells)) for _, cells in lines[1:]]
    check_distinct(columns, f"{path}: the column")
    check_distinct((os.path.normpath(row[FILE]) for row in rows if row[FILE]), f"{path}: the file")
    return columns, rows
