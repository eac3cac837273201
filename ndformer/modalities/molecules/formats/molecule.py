"""A molecule as an array, and what every reader checks."""

from collections.abc import Sequence

import numpy as np

MAX_ATOMS = 10_000  # of one molecule: every atom attends to every other one
MAX_SIZE = 1e5  # Angstrom; float32 resolves 0.01 there


def to_rows(
    numbers: Sequence[int] | np.ndarray,
    positions: Sequence[Sequence[float]] | np.ndarray,
    charges: Sequence[float] | np.ndarray | None = None,
) -> np.ndarray:
    """Return (n, 4) float32 rows of atomic number and position in Angstrom, relative to the mean position of the atoms.

    With `charges` (n,) they are the fifth column. Raise ValueError if it is no molecule.
    """
    numbers, positions = np.asarray(numbers), np.asarray(positions, np.float64)
    if positions.shape != (len(numbers), 3) or numbers.ndim != 1 or not len(numbers):
        raise ValueError(
            f"atoms must have an atomic number and x, y, z each, got {numbers.shape} and {positions.shape}"
        )
    check_count(len(numbers))
    if not np.isfinite(positions).all():
        raise ValueError("it has a position that is not finite")
    positions = positions - positions.mean(0)
    if np.abs(positions).max() > MAX_SIZE:
        raise ValueError(f"it is larger than {MAX_SIZE:.0e} Angstrom")
    if charges is None:
        return np.column_stack([numbers, positions]).astype(np.float32)
    if len(charges) != len(numbers) or not np.isfinite(charges).all():
        raise ValueError(f"charges must be {len(numbers)} finite numbers, one for each atom")
    return np.column_stack([numbers, positions, charges]).astype(np.float32)


def check_count(atoms: int) -> None:
    if not 0 < atoms <= MAX_ATOMS:
        raise ValueError(f"a molecule has 1 to {MAX_ATOMS} atoms, got {atoms}")
