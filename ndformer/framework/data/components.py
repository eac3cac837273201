"""Targets that are the components of a vector or of a tensor in space, recognized by their names."""

import re
from collections.abc import Sequence

import numpy as np

VECTOR = ("x", "y", "z")
TENSOR = ("xx", "xy", "yy", "xz", "yz", "zz")
MATRIX = ((0, 1, 3), (1, 2, 4), (3, 4, 5))  # the components of TENSOR as a matrix (3, 3)
ROWS, COLUMNS = (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)  # and where each is in it
DIAGONAL = (0, 2, 5)
FULL = ("xx", "xy", "xz", "yx", "yy", "yz", "zx", "zy", "zz")  # of a tensor that may be not symmetric
NAME = re.compile(rf"(.*[ _.-])({'|'.join(FULL + VECTOR)})(\s*(?:\(.*\))?)", re.IGNORECASE)  # "dipole_x (D)"


def groups(names: Sequence[str]) -> list[list[int]]:
    """Return the indices of each vector, in the order of VECTOR, and of each tensor, in that of TENSOR or of FULL.

    Their names differ in the component only: `dipole_x (D)`, `dipole_y (D)`, `dipole_z (D)`. A tensor has six
    components, or all nine. Upper and lower case differ only where names differ in nothing else.
    """
    same_case = len({name.lower() for name in names}) == len(names)
    plain = [name.lower() if same_case else name for name in names]
    index = {name: i for i, name in enumerate(plain)}
    indices = []
    for name in plain:
        match = NAME.fullmatch(name)
        for order in (VECTOR, FULL, TENSOR):
            if match is None or match[2].lower() != order[0]:
                continue
            component = str.upper if match[2].isupper() else str.lower
            group = [index.get(f"{match[1]}{component(part)}{match[3]}", -1) for part in order]
            if min(group) >= 0:
                indices.append(group)
                break
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
        elif len(group) == len(FULL):
            values[group] = (turn @ values[group].reshape(3, 3) @ turn.T).ravel()
        else:
            matrix = turn @ values[np.asarray(group)[np.array(MATRIX)]] @ turn.T
            values[group] = matrix[ROWS, COLUMNS]
    return values
