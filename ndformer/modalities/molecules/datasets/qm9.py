"""QM9: 130,831 molecules of up to 9 heavy atoms with computed properties (Ramakrishnan 2014)."""

import zipfile
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, UnknownNameError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Count, Text
from ndformer.modalities.molecules.datasets.table import Molecules, MoleculeTable, check_distinct
from ndformer.modalities.molecules.formats.elements import KINDS

FILE = "qm9.npz"
HARTREE = 27211.386  # meV
# The targets in the order and the units of the literature, their columns in the file, and their factors
TARGETS = {
    "mu (D)": ("Dipole_debye", 1.0),
    "alpha (a0^3)": ("Polarizability_bohr3", 1.0),
    "HOMO (meV)": ("HOMO_au", HARTREE),
    "LUMO (meV)": ("LUMO_au", HARTREE),
    "gap (meV)": ("HOMO_LUMO_gap_au", HARTREE),
    "R2 (a0^2)": ("R2_bohr2", 1.0),
    "ZPVE (meV)": ("ZPVE_au", HARTREE),
    "U0 (meV)": ("InternalEnergy_0K_au", HARTREE),
    "U (meV)": ("InternalEnergy_298K_au", HARTREE),
    "H (meV)": ("Enthalphy_298K_au", HARTREE),  # the file's spelling
    "G (meV)": ("GibbsFreeEnergy_298K_au", HARTREE),
    "Cv (cal/mol/K)": ("Heatcapacity_Cv_cal_mol_K", 1.0),
}
# Of the polarizability, whose tensor in the file has the principal axes of the molecule, and not those of its positions
ANISOTROPY = "anisotropy (a0^3)"


@DATASETS.register_module()
class QM9(MoleculeTable):
    """QM9 from data_root/qm9.npz: 110,000 molecules for training, 10,000 for validation, the others for testing.

    The seed chooses them, as in most publications. `targets` are names of TARGETS with their units, and ANISOTROPY.

    The file has the arrays index (M,), atoms (M,), number (A,), position (A, 3) in Angstrom, target (M, T) and
    target_names (T,). The polarizability (M, 6), xx, xy, yy, xz, yz and zz, is for ANISOTROPY only. The file may have
    charge (A,) of the atoms, for Atoms(charges=True).
    """

    def __init__(
        self,
        *args: Any,
        targets: Sequence[Text] = ("gap (meV)",),
        train: Count = 110_000,
        val: Count = 10_000,
        **kwargs: Any,
    ) -> None:
        names = [*TARGETS, ANISOTROPY]
        for name in targets:
            if name not in names:
                raise UnknownNameError(f"QM9 has no target '{name}'{nearest(name, names)} It has: {', '.join(names)}")
        check_distinct(targets, "QM9: the target")
        self.targets = list(targets)
        super().__init__(*args, train=train, val=val, **kwargs)

    def load(self) -> Molecules:
        self.classes = self.targets
        path = self.data_root / FILE
        if not foreign.is_file(path):
            raise missing(path, "QM9 as arrays", "docs/get-started/molecules.md names them")
        stamp = foreign.status(path)
        return _load(path, tuple(self.targets), stamp.st_mtime_ns, stamp.st_size)

    def sample_files(self, i: int) -> Any:
        return self.data_root / FILE


@lru_cache(maxsize=1)
def _load(path: Path, targets: tuple[str, ...], modified: int, size: int) -> Molecules:
    """Read the file once for all splits."""
    return read_arrays(path, targets)[0]


def read_arrays(path: Path, targets: Sequence[str] | None = None) -> tuple[Molecules, list[str]]:
    """Return the molecules of a file of arrays, and the names of their targets: `targets`, or all that the file has.

    Raise DataError.
    """
    try:
        return _check_arrays(foreign.arrays(path), targets)
    except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        reason = f"it has no array {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DataError(f"{path} cannot be read as QM9 ({reason}). Get it again") from None


def _check_arrays(arrays: dict[str, np.ndarray], targets: Sequence[str] | None) -> tuple[Molecules, list[str]]:
    index, atoms, numbers, positions, table, names = (
        arrays[name] for name in ("index", "atoms", "number", "position", "target", "target_names")
    )
    shapes = dict(index=(M := len(index),), atoms=(M,), number=(A := len(numbers),), position=(A, 3))
    shapes |= dict(target=(M, len(names)), target_names=(len(names),))
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {arrays[name].shape}")
    if not all(arrays[name].dtype.kind in "iu" for name in ("index", "atoms", "number")) or names.dtype.kind != "U":
        raise ValueError("index, atoms and number must be integers, and target_names texts")
    if not all(values.dtype.kind == "f" and np.isfinite(values).all() for values in (positions, table)):
        raise ValueError("position and target must be finite numbers")
    if not M or atoms.min() < 1 or int(atoms.sum(dtype=np.int64)) != A:
        raise ValueError(f"atoms must be at least 1 each and {A} in all, as many as number has")
    if len(np.unique(index)) < M:
        raise ValueError("index must have each number once")
    if numbers.min() < 1 or numbers.max() >= KINDS:
        raise ValueError(f"number must be from 1 to {KINDS - 1}")
    column = {name: i for i, name in enumerate(names.tolist())}
    targets = [name for name in TARGETS if TARGETS[name][0] in column] if targets is None else list(targets)
    if ANISOTROPY in targets and not _is_tensors(arrays["polarizability"], M):
        raise ValueError(f"polarizability must have shape {(M, 6)} and finite numbers")
    charges = arrays.get("charge")
    if charges is not None and (charges.shape != (A,) or not np.isfinite(charges).all()):
        raise ValueError(f"charge must have shape {(A,)} and finite numbers")
    values = [
        anisotropy(arrays["polarizability"])
        if name == ANISOTROPY
        else table[:, column[TARGETS[name][0]]] * TARGETS[name][1]
        for name in targets
    ]
    chosen = np.stack(values, axis=1) if values else np.empty((M, 0))
    molecules = Molecules.create(atoms, numbers, positions, chosen, index, charges)
    if (np.diff(index.astype(np.int64)) < 0).any():  # the splits are the same in any order of the file
        molecules = molecules.reordered(np.argsort(index))
    return molecules, targets


def _is_tensors(values: np.ndarray, count: int) -> bool:
    return values.shape == (count, 6) and values.dtype.kind == "f" and bool(np.isfinite(values).all())


def anisotropy(tensors: np.ndarray) -> np.ndarray:
    """Return (M,) the anisotropy of polarizabilities (M, 6): sqrt(3/2) times the norm of their traceless part."""
    xx, xy, yy, xz, yz, zz = tensors.astype(np.float64).T
    differences = np.square(xx - yy) + np.square(yy - zz) + np.square(zz - xx)
    return np.sqrt(differences / 2 + 3 * (np.square(xy) + np.square(xz) + np.square(yz)))
