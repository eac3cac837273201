"""Molecules from files of any format that is read here, by ending."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.formats import pdb, sdf, xyz
from ndformer.modalities.molecules.formats.elements import KINDS, atomic_number
from ndformer.modalities.molecules.formats.molecule import to_rows

READERS: dict[str, Callable[[Iterator[str]], Iterator[np.ndarray]]] = {
    ".xyz": xyz.molecules,
    ".extxyz": xyz.molecules,
    ".sdf": sdf.molecules,
    ".mol": sdf.molecules,
    ".pdb": pdb.molecules,
}
ENDINGS = tuple(READERS)


@runtime_checkable
class AtomsObject(Protocol):
    """A molecule as the library ASE has it."""

    numbers: Any  # (n,)
    positions: Any  # (n, 3) Angstrom


def read_molecules(path: Path) -> Iterator[np.ndarray]:
    """Yield the molecules of a file: rows (n, 4) of atomic number and position in Angstrom, or (n, 5) with charges.

    Raise DataError.
    """
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path}: expected a molecule in one of {', '.join(ENDINGS)}, got another ending. Convert it")
    number = 0
    try:
        for molecule in READERS[path.suffix.lower()](foreign.text_rows(path)):
            number += 1
            yield molecule
    except FileNotFoundError:
        raise DataError(f"{path} is missing. Give another file, or get the dataset again") from None
    except (ValueError, ArithmeticError, OSError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        which = f"molecule {number + 1} of {path}" if number else str(path)
        raise DataError(f"{which} cannot be read ({reason}). Replace it or remove it") from None
    if not number:
        raise DataError(f"{path} has no molecule. Replace it or remove it")


def read_molecule(path: Path) -> np.ndarray:
    """Read the molecule of a file that contains exactly one. Raise DataError."""
    reader = read_molecules(path)
    molecule = next(reader)
    if next(reader, None) is not None:
        raise DataError(f"{path}: expected one molecule, got several. Write a file for each")
    return molecule


def to_molecule(value: Any) -> np.ndarray:
    """Convert rows (n, 4) or (n, 5), a dict of arrays, or an Atoms object of ASE; raise ValueError.

    The dict has numbers (n,), atomic numbers or symbols, positions (n, 3) and perhaps charges (n,).
    """
    if isinstance(value, Mapping):
        value = _rows(value.get("numbers"), value.get("positions"), value.get("charges"))
    elif isinstance(value, AtomsObject):
        value = _rows(value.numbers, value.positions)
    rows = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
    if rows.ndim != 2 or rows.shape[1] not in (4, 5) or rows.dtype.kind not in "fiu":
        raise ValueError(
            f"a molecule must be rows (atoms, 4) of atomic number, x, y and z in Angstrom, got {rows.dtype} of shape "
            f"{rows.shape}. Write dict(numbers=..., positions=...) for two arrays"
        )
    numbers = rows[:, 0]
    if not ((numbers % 1 == 0) & (numbers > 0) & (numbers < KINDS)).all():
        raise ValueError(f"atomic numbers must be whole numbers from 1 to {KINDS - 1}")
    return to_rows(numbers, rows[:, 1:4], rows[:, 4] if rows.shape[1] == 5 else None)


def _rows(numbers: Any, positions: Any, charges: Any = None) -> np.ndarray:
    numbers, positions = np.asarray(numbers), np.asarray(positions)
    if numbers.dtype.kind == "U":
        numbers = np.array([atomic_number(symbol) for symbol in numbers.ravel()]).reshape(numbers.shape)
    if numbers.ndim != 1 or positions.shape != (len(numbers), 3):
        raise ValueError(f"a molecule has numbers (n,) and positions (n, 3), got {numbers.shape} and {positions.shape}")
    if charges is None:
        return np.column_stack([numbers, positions])
    if np.shape(charges) != numbers.shape:
        raise ValueError(f"a molecule has a charge for each of its {len(numbers)} atoms, got {np.shape(charges)}")
    return np.column_stack([numbers, positions, charges])
