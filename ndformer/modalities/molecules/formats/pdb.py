"""Reader of .pdb files: the atoms (ATOM and HETATM) of the first model, each at its first alternate location."""

from collections.abc import Iterator

import numpy as np

from ndformer.modalities.molecules.formats.elements import NUMBERS, atomic_number
from ndformer.modalities.molecules.formats.molecule import check_count, to_rows
from ndformer.modalities.molecules.formats.xyz import number

WIDTH = 54  # columns up to the end of z
NO_LETTERS = " 0123456789"
# Elements on HETATM; on ATOM they begin the names of atoms of proteins and nucleic acids, such as HG1 and CA
NAMES = {"Ca", "Cd", "Ce", "He", "Hg", "Ho", "Nd", "Ne"}
URANIUM = 92


def molecules(lines: Iterator[str]) -> Iterator[np.ndarray]:
    """Yield one molecule (n, 4) from the lines of a file; raise ValueError."""
    numbers, positions = [], []
    residues: dict[str, str] = {}  # chain, residue number and insertion code -> name of the residue
    locations: dict[tuple[str, str], str] = {}  # the same and the name of an atom -> its alternate location
    for line in lines:
        if numbers and line[:6].strip() in ("END", "ENDMDL"):  # some programs write END after each frame
            break
        if not line.startswith(("ATOM  ", "HETATM")):
            continue
        if len(line.rstrip("\r\n")) < WIDTH:
            raise ValueError(f"an atom must have x, y and z in columns 31-54, got '{line.strip():.60}'")
        place, name, location, symbol = line[21:27], line[12:16], line[16], _symbol(line)
        if location != " " and residues.setdefault(place, line[17:20]) != line[17:20]:
            continue  # an alternate residue in the same place
        if symbol == "D" and name.lstrip(NO_LETTERS).startswith("D"):
            name = name.replace("D", "H", 1)  # deuterium is an alternate of the hydrogen in the same place
        if locations.setdefault((place, name), location) != location:
            continue
        numbers.append(atomic_number(symbol))
        positions.append([number(line[i : i + 8]) for i in (30, 38, 46)])
        check_count(len(numbers))
    if not numbers:
        raise ValueError("it has no ATOM or HETATM")
    yield to_rows(numbers, positions)


def _symbol(line: str) -> str:
    """Return the element in columns 77-78 or, in older files, the one in the atom's name in columns 13-16."""
    element = line[76:78].strip().capitalize()
    if element in NUMBERS:  # the oldest files have digits there
        return element
    name = line[12:16]
    first, two = name.lstrip(NO_LETTERS)[:1].upper(), name[:2].strip(NO_LETTERS).capitalize()
    if " " not in name and first in ("H", "D"):
        return first  # names of four characters begin in column 13: HG11 is no mercury
    if line.startswith("ATOM") and two in NAMES:
        return first
    # Names of one-letter elements belong in column 14. Where OG or SG are in column 13, they are no oganesson
    return two if 0 < NUMBERS.get(two, 0) <= URANIUM else first
