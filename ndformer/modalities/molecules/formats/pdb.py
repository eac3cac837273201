"""Reader of .pdb files: the atoms (ATOM and HETATM) of the first model, in the first of alternate locations."""

from collections.abc import Iterator

import numpy as np

from ndformer.modalities.molecules.formats.elements import atomic_number
from ndformer.modalities.molecules.formats.molecule import check_count, to_rows
from ndformer.modalities.molecules.formats.xyz import number


def molecules(lines: Iterator[str]) -> Iterator[np.ndarray]:
    """Yield one molecule (n, 4) from the lines of a file; raise ValueError."""
    numbers, positions = [], []
    for line in lines:
        if line.startswith("ENDMDL"):
            break
        if not line.startswith(("ATOM  ", "HETATM")) or line[16:17] not in (" ", "A", "1"):
            continue
        numbers.append(atomic_number(_symbol(line)))
        positions.append([number(line[i : i + 8]) for i in (30, 38, 46)])
        check_count(len(numbers))
    if not numbers:
        raise ValueError("it has no ATOM or HETATM")
    yield to_rows(numbers, positions)


def _symbol(line: str) -> str:
    """Return the element in columns 77-78 or, in older files, the beginning of the atom's name in columns 13-16."""
    return line[76:78].strip() or line[12:14].strip(" 0123456789") or line[14:15]
