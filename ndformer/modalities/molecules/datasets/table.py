"""Base class of datasets whose molecules are read at once, into a few arrays without an object per molecule."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import SPLITS, Dataset, Sample
from ndformer.framework.data.regression import TargetTable
from ndformer.framework.errors import DataError
from ndformer.framework.registry.ranges import Count


@dataclass(eq=False)
class Molecules:
    """M molecules with A atoms in all, and their properties."""

    rows: np.ndarray  # (A, 4) float32: atomic number and position in Angstrom, relative to the molecule's mean
    #                   (A, 5) with charges
    starts: np.ndarray  # (M + 1,) int64: the first atom of each molecule, and A
    targets: np.ndarray  # (M, T) float64
    names: np.ndarray  # (M,) numbers or texts that identify the molecules

    @classmethod
    def create(
        cls,
        atoms: np.ndarray,
        numbers: np.ndarray,
        positions: np.ndarray,
        targets: np.ndarray,
        names: np.ndarray,
        charges: np.ndarray | None = None,
    ) -> "Molecules":
        """Return molecules of `atoms` (M,) atoms each, with numbers (A,) and positions (A, 3) one after the other."""
        starts = np.concatenate([[0], np.cumsum(atoms, dtype=np.int64)])
        centers = np.add.reduceat(positions.astype(np.float64), starts[:-1]) / np.diff(starts)[:, None]  # (M, 3)
        rows = np.empty((len(numbers), 4 if charges is None else 5), np.float32)
        rows[:, 0] = numbers
        rows[:, 1:4] = positions - np.repeat(centers, np.diff(starts), axis=0)
        if charges is not None:
            rows[:, 4] = charges
        return cls(rows, starts, np.asarray(targets, np.float64), names)

    def reordered(self, order: np.ndarray) -> "Molecules":
        """Return the molecules of these numbers (M,), in their order."""
        sizes = np.diff(self.starts)[order]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(starts[-1]) + np.repeat(self.starts[order] - starts[:-1], sizes)
        return Molecules(self.rows[rows], starts, self.targets[order], self.names[order])

    @cached_property
    def composition(self) -> np.ndarray:
        """(M, K) the number of atoms of each element, by atomic number up to the largest."""
        molecule = np.repeat(np.arange(len(self.names)), np.diff(self.starts))
        numbers = self.rows[:, 0].astype(np.int64)
        kinds = int(numbers.max(initial=0)) + 1
        counts = np.bincount(molecule * kinds + numbers, minlength=len(self.names) * kinds)
        return counts.reshape(-1, kinds).astype(np.int32)


def check_distinct(values: Iterable[Any], name: str) -> None:
    """Raise DataError if a value occurs twice; `name` says in the message what the values are."""
    repeated = next((value for value, count in Counter(values).items() if count > 1), None)
    if repeated is not None:
        raise DataError(f"{name} '{str(repeated):.60}' must occur once, got it several times. Remove the others")


class MoleculeTable(Dataset):
    """Base class of datasets that load() returns as Molecules, split at random by the seed.

    `train` and `val` are numbers of molecules; the others are the test set. Subclasses set `classes`, the names of the
    targets with their units, in load().
    """

    splits = SPLITS
    answer = "Values"
    preview_transforms = (dict(type="PackAtoms"),)
    parted_by = ("train", "val")

    def __init__(self, *args: Any, train: Count, val: Count, **kwargs: Any) -> None:
        self.sizes = (train, val)
        super().__init__(*args, **kwargs)

    def load(self) -> Molecules:
        """Return all molecules, and set `classes`."""
        raise NotImplementedError

    def index(self, split: str) -> tuple[Any, np.ndarray]:
        self.molecules = self.load()
        count, (train, val) = len(self.molecules.names), self.sizes
        if train + val >= count:
            raise DataError(
                f"{self.data_root} has {count} molecules, which must be more than train={train} and val={val} together",
                f'--cfg-options "dataset.train={count * 8 // 10}" "dataset.val={count // 10}"',
            )
        order = np.random.default_rng(self.seed).permutation(count)
        part = np.split(order, [train, train + val])[SPLITS.index(split)]
        return np.sort(part), np.zeros(len(part), np.int64)

    def select_records(self, records: Any, labels: np.ndarray, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        return records[rows], labels[rows]

    def read(self, record: Any) -> Sample:
        molecules = self.molecules
        rows = molecules.rows[molecules.starts[record] : molecules.starts[record + 1]]
        return dict(molecules=rows, targets=molecules.targets[record], path=self._path(record))

    def _path(self, record: Any) -> str:
        return f"molecule {self.molecules.names[record]}"

    def name(self, i: int) -> str:
        return self._path(self.records[i])

    def identity(self, i: int) -> Any:
        record, molecules = self.records[i], self.molecules
        rows = molecules.rows[molecules.starts[record] : molecules.starts[record + 1]]
        return molecules.names[record], rows, molecules.targets[record]

    def lengths(self) -> np.ndarray:
        return np.diff(self.molecules.starts)[self.records]

    def shuffle_labels(self) -> None:
        """Give each molecule the targets of another one, for a control experiment."""
        self.label_override = np.random.default_rng((self.seed, len(self))).permutation(len(self))

    def _with_label(self, sample: Sample, label: int) -> Sample:
        return sample | dict(targets=self.molecules.targets[self.records[label]])

    def target_table(self) -> TargetTable:
        order = slice(None) if self.label_override is None else self.label_override
        return TargetTable(self.molecules.targets[self.records][order], self.molecules.composition[self.records])
