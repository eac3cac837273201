"""Targets that are the components of a vector or of a symmetric tensor in space, recognized by their names."""

import re
from collections.abc import Sequence

import numpy as np

VECTOR = ("x", "y", "z")
TENSOR = ("xx", "xy", "yy", "xz", "yz", "zz")
MATRIX = ((0, 1, 3), (1, 2, 4), (3, 4, 5))  # the components of TENSOR as a matrix (3, 3)
ROWS, COLUMNS = (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)  # and where each is in it
DIAGONAL = (0, 2, 5)
NAME = re.compile(rf"(.*[ _.-])({'|'.join(TENSOR + VECTOR)})(\s*(?:\(.*\))?)", re.IGNORECASE)  # "dipole_x (D)"


def groups(names: Sequence[str]) -> list[list[int]]:
    """Return the indices of each vector, in the order of VECTOR, and of each symmetric tensor, in that of TENSOR.

    Their names differ in the component only: `dipole_x (D)`, `dipole_y (D)`, `dipole_z (D)`.
    """
    index = {name.lower(): i for i, name in enumerate(names)}
    indices = []
    for name in names:
        match = NAME.fullmatch(name.lower())
        order = next((order for order in (VECTOR, TENSOR) if match and match[2] == order[0]), ())
        group = [index.get(f"{match[1]}{component}{match[3]}", -1) for component in order] if match else []
        if group and min(group) >= 0:
            indices.append(group)
    return indices


def incomplete(names: Sequence[str]) -> list[str]:
    """Return the names that are components, such as `dipole_x (D)`, of a vector or tensor that is not whole."""
    whole = {i for group in groups(names) for i in group}
    return [name for i, name in enumerate(names) if NAME.fullmatch(name) and i not in whole]


def rotate(values: np.ndarray, components: Sequence[Sequence[int]], turn: np.ndarray) -> np.ndarray:
    """Return targets (T,) of a sample that is rotated by a matrix (3, 3); `components` are groups()."""
    values = values.copy()
    for group in components:
        if len(group) == len(VECTOR):
            values[group] = turn @ values[group]
        else:
            matrix = turn @ values[np.asarray(group)[np.array(MATRIX)]] @ turn.T
            values[group] = matrix[ROWS, COLUMNS]
    return values
