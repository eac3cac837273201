"""Stand-in of QM9: molecules grown by rules of valence, with properties that formulas compute from their geometry.

The properties have the names and about the sizes of QM9's, and none of its physics. Dipole moments depend on
directions, orbital energies and gaps on angles, the others on distances and composition.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.components import COLUMNS, ROWS
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.regression import target_table
from ndformer.framework.data.stand_ins import stand_in
from ndformer.framework.heads.regressor import per_part
from ndformer.modalities.molecules.datasets.qm9 import FILE
from ndformer.modalities.molecules.datasets.qm9_archive import PROPERTIES as NAMES
from ndformer.modalities.molecules.formats.elements import RADII, bonds

HEAVY, SHARES, VALENCES = (6, 7, 8, 9), (0.72, 0.12, 0.13, 0.03), {1: 1, 6: 4, 7: 3, 8: 2, 9: 1}
MAX_HEAVY_ATOMS = 9
DIRECTIONS, FARTHEST = 24, 1.3  # candidates for a new atom, and the spread of bond lengths in shares
ELECTRONEGATIVITY = {1: 2.2, 6: 2.55, 7: 3.04, 8: 3.44, 9: 3.98}
ATOM = {1: (-0.6, 4.5), 6: (-38.1, 11.9), 7: (-54.7, 7.4), 8: (-75.2, 5.4), 9: (-99.9, 3.8)}  # Hartree, a0^3


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    """Yield mean absolute errors of the first target: of the mean, and of a value for each atom of an element."""
    (train_targets, composition), (truth, kinds) = target_table(train), target_table(test)
    yield "mean of the training data", float(np.abs(truth[:, 0] - train_targets[:, 0].mean()).mean())
    assert composition is not None
    assert kinds is not None
    fit = per_part(composition, train_targets[:, 0])
    yield "a value for each atom", float(np.abs(truth[:, 0] - kinds @ fit).mean())


@stand_in(dict(type="QM9", train=1600, val=200), baselines)
def qm9(folder: Path, seed: int = 0, molecules: int = 2000) -> None:
    """Write 2,000 molecules of up to 9 heavy atoms."""
    grown = [grow(np.random.default_rng((seed, i))) for i in range(molecules)]
    arrays: dict[str, Any] = dict(
        index=np.arange(1, molecules + 1, dtype=np.int32),
        atoms=np.array([len(numbers) for numbers, _ in grown], np.uint8),
        number=np.concatenate([numbers for numbers, _ in grown]).astype(np.uint8),
        position=np.concatenate([positions for _, positions in grown]).astype(np.float32),
        target=np.stack([properties(numbers, positions) for numbers, positions in grown]),
        polarizability=np.stack([polarizability(numbers, positions) for numbers, positions in grown]),
        target_names=np.array(NAMES),
    )
    np.savez_compressed(folder / FILE, **arrays)


def grow(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers (n,) and positions (n, 3): a random tree of heavy atoms, whose free valences get hydrogen."""
    numbers, positions = [6], [np.zeros(3)]
    free = [4]
    heavy = int(rng.integers(1, MAX_HEAVY_ATOMS + 1))
    while len(numbers) < heavy and any(free):
        number = int(rng.choice(HEAVY, p=SHARES))
        _attach(numbers, positions, free, int(rng.choice(np.flatnonzero(free))), number, rng)
    for parent in range(len(numbers)):
        while free[parent]:
            _attach(numbers, positions, free, parent, 1, rng)
    return np.array(numbers), np.stack(positions)


def _attach(
    numbers: list[int], positions: list[np.ndarray], free: list[int], parent: int, number: int, rng: np.random.Generator
) -> None:
    """Bind a new atom to `parent`, in the direction, of some random ones, that is farthest from all atoms."""
    ways = rng.standard_normal((DIRECTIONS, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    length = (RADII[numbers[parent]] + RADII[number]) * rng.uniform(0.95, FARTHEST * 0.85)
    places = positions[parent] + length * ways  # (DIRECTIONS, 3)
    gap = np.linalg.norm(places[:, None] - np.stack(positions), axis=-1).min(1)  # the parent's is `length` for all
    gap += 1e-3 * np.linalg.norm(places - np.mean(positions, axis=0), axis=1)
    numbers.append(number)
    positions.append(places[gap.argmax()])
    free[parent] -= 1
    free.append(VALENCES[number] - 1)


def properties(numbers: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return (15,) properties in the units of NAMES."""
    r = positions - np.average(positions, axis=0, weights=numbers)
    inertia = np.linalg.eigvalsh(np.einsum("n,ni,nj->ij", numbers, r, r))  # (3,) ascending
    rotations = 250 / (inertia[::-1] + inertia.mean() + 1)
    pairs = bonds(numbers, r)
    i, j = pairs.T
    along = r[j] - r[i]  # (K, 3)
    length = np.linalg.norm(along, axis=1)
    charge = np.array([ELECTRONEGATIVITY[int(number)] for number in numbers])
    dipole = np.linalg.norm(((charge[j] - charge[i])[:, None] * along).sum(0))
    energy, volume = (np.array([ATOM[int(number)][k] for number in numbers]).sum() for k in (0, 1))
    distance = np.linalg.norm(r[:, None] - r, axis=-1)[np.triu_indices(len(r), 1)]
    crowding = np.exp(-distance / 1.5).sum()
    strain = np.square(length - 1.3).sum()
    # the cosines between all bonds that share an atom
    ends = np.concatenate([along / length[:, None], -along / length[:, None]])  # seen from i, from j
    start = np.concatenate([i, j])
    same = (start[:, None] == start) & ~np.eye(len(start), dtype=bool)
    bend = float((ends @ ends.T)[same].mean()) if same.any() else 0.0
    gap = 0.25 + 0.15 * bend + 0.02 * (charge.max() - charge.mean())
    homo = -0.24 + 0.05 * (charge.mean() - 2.6) + 0.05 * bend
    zero_point = 0.008 * len(numbers) + 0.02 * np.exp(-length).sum() / 3
    inner = energy - 0.12 * crowding + 0.1 * strain
    heat = 1.6 * len(numbers) + 0.5 * crowding
    size = float(numbers @ np.square(r).sum(1)) * 3.57  # Angstrom^2 in a0^2
    volume += 0.8 * crowding
    thermal = [inner, inner + 0.001 * heat / 3, inner + 0.001 * heat / 3 + 0.001, inner - 0.04 - 0.0005 * heat]
    return np.array([*rotations, dipole, volume, homo, homo + gap, gap, size, zero_point, *thermal, heat])


def polarizability(numbers: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return (6,) xx, xy, yy, xz, yz, zz of a tensor that is larger along the bonds of atoms with more electrons."""
    i, j = bonds(numbers, positions).T
    along = positions[j] - positions[i]  # (K, 3)
    tensor = np.einsum("k,ka,kb->ab", np.sqrt(numbers[i] * numbers[j]), along, along)
    return tensor[ROWS, COLUMNS]
