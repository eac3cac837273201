"""Reader of .xyz files, plain and extended: the number of atoms, a comment, and a line for each atom.

A plain line has the symbol or the atomic number, x, y and z; more columns are ignored. The comment of an extended file
names its columns, Properties=species:S:1:pos:R:3:charge:R:1. A file may contain several molecules. Files of QM9, whose
comment is gdb, an index and 15 properties, have Mulliken charges in a fifth column, and three more lines after the
atoms: frequencies, SMILES and InChI.
"""

import math
import re
from collections.abc import Iterator

import numpy as np

from ndformer.modalities.molecules.formats.elements import atomic_number
from ndformer.modalities.molecules.formats.molecule import check_count, to_rows

PROPERTIES = re.compile(r"""\bproperties\s*=\s*["'{\[]?\s*([\w:.-]+)""", re.IGNORECASE)
QM9, QM9_WORDS = "gdb", 17  # the first word of the comment in files of QM9, and the number of words
MORE_LINES = 3  # after the atoms in files of QM9
SYMBOL_NAMES, POSITION_NAMES = ("species", "z", "numbers", "element"), ("pos", "positions")
CHARGE_NAMES, QM9_CHARGE = ("charge", "charges", "initial_charges"), 4


def molecules(lines: Iterator[str]) -> Iterator[np.ndarray]:
    """Yield the molecules (n, 4), or (n, 5) with charges, of the lines of a file; raise ValueError."""
    for line in lines:
        if not line.strip():
            continue
        if not re.fullmatch(r"\s*\d{1,9}\s*", line, re.ASCII):
            raise ValueError(f"it must begin with the number of atoms, got '{line.strip():.40}'")
        count = int(line)
        check_count(count)
        comment = next(lines, "")
        qm9 = (
            comment.split()[:1] == [QM9] and len(comment.split()) == QM9_WORDS
        )  # other comments may begin with gdb too
        symbol, place, charge = (0, 1, QM9_CHARGE) if qm9 else _columns(comment)
        numbers, positions, charges = [], [], []
        for _ in range(count):
            words = next(lines, "").split()
            if len(words) < max(symbol, place + 2) + 1:
                got = f"'{' '.join(words):.40}'" if words else "the end or an empty line"
                raise ValueError(f"it says to have {count} atoms, and atom {len(numbers) + 1} is {got}")
            numbers.append(atomic_number(words[symbol]))
            positions.append([number(word) for word in words[place : place + 3]])
            if charge is not None and charge < len(words):
                charges.append(number(words[charge]))
        if qm9:
            for _ in range(MORE_LINES):
                next(lines, "")
        yield to_rows(numbers, positions, charges if len(charges) == count else None)


def _columns(comment: str) -> tuple[int, int, int | None]:
    """Return the column of the symbol, the first of the position, and that of the charge if there is one."""
    match = PROPERTIES.search(comment)
    if match is None:
        if re.search(r"\bproperties\s*=", comment, re.IGNORECASE):
            raise ValueError(f"its Properties are not NAME:TYPE:COLUMNS, got '{comment.strip():.60}'")
        return 0, 1, None
    parts, start, columns, widths = match[1].split(":"), 0, {}, {}
    for name, _, width in zip(parts[::3], parts[1::3], parts[2::3]):
        if not width.isascii() or not width.isdigit() or len(width) > 3:
            raise ValueError(f"its Properties are not NAME:TYPE:COLUMNS, got '{match[1]:.60}'")
        columns[name.lower()], widths[name.lower()] = start, int(width)
        start += int(width)
    symbol = next((columns[name] for name in SYMBOL_NAMES if name in columns), None)
    position = next((name for name in POSITION_NAMES if name in columns), None)
    if symbol is None or position is None:
        raise ValueError(f"its Properties must name species and pos, got '{match[1]:.60}'")
    if widths[position] != 3:  # the columns after them would be read as coordinates
        raise ValueError(f"its Properties must have 3 columns of {position}, got {widths[position]}")
    return symbol, columns[position], next((columns[name] for name in CHARGE_NAMES if name in columns), None)


def number(word: str) -> float:
    """Parse a number that is not infinite; raise ValueError.

    Exponents may be those of Fortran, 1.5D-06, or of Mathematica, 1.5*^-6, as in the files of QM9.
    """
    try:
        value = float(word)
    except ValueError:
        value = _with_exponent(word)
    if "_" in word:  # Python reads 1_2 as 12
        raise ValueError(f"'{word.strip():.40}' is no number")
    if math.isinf(value):
        raise ValueError(f"'{word.strip():.40}' is not finite")
    return value


def _with_exponent(word: str) -> float:
    try:
        return float(word.replace("*^", "e").replace("D", "e").replace("d", "e"))
    except ValueError:
        raise ValueError(f"'{word.strip():.40}' is no number") from None
