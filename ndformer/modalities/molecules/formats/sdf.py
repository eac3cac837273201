"""Reader of .sdf and .mol files (V2000 and V3000): molecules with positions, separated by $$$$."""

import itertools
import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from ndformer.modalities.molecules.formats.elements import atomic_number
from ndformer.modalities.molecules.formats.molecule import check_count, to_rows
from ndformer.modalities.molecules.formats.xyz import number

END = "$$$$"
MIN_ATOMS = 4  # three are always in one plane
DRAWING = (
    "a molecule has no dimension code (2D or 3D) in columns 21-22 of its second line, and all its atoms have the same "
    "z. If it is a drawing, predictions are wrong: compute its geometry first, with Open Babel or RDKit for example"
)


def molecules(lines: Iterator[str]) -> Iterator[np.ndarray]:
    """Yield the molecules (n, 4) of the lines of a file; raise ValueError."""
    for _, rows in titled_molecules(lines):
        yield rows


def titled_molecules(lines: Iterator[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield title and rows (n, 4) of each molecule of the lines of a file; raise ValueError."""
    while True:
        header = [line for _, line in zip(range(4), lines)]
        if not any(line.strip() for line in header):
            return
        if len(header) < 4:
            raise ValueError("it ends within the four lines before the atoms")
        dimensions, counts = header[1][20:22].strip().upper(), header[3]
        if dimensions == "2D":
            raise ValueError("it is a drawing in 2 dimensions, without a geometry")
        following = ""
        if "V3000" in counts:
            rows = _v3000(lines)
        else:
            rows = _v2000(lines, counts)
            following = next(lines, "")
            if _is_atom(following):
                raise ValueError(f"it says to have {len(rows)} atoms and has more")
        if dimensions != "3D" and len(rows) >= MIN_ATOMS and not rows[:, 3].any():
            warnings.warn(DRAWING, stacklevel=2)
        yield header[0].strip(), rows
        for line in itertools.chain([following], lines):  # bonds and data are not read
            if line.startswith(END):
                break
        else:
            return


def _v2000(lines: Iterator[str], counts: str) -> np.ndarray:
    if not counts[:3].strip().isdigit():
        raise ValueError(f"its fourth line must begin with the number of atoms, got '{counts.strip():.40}'")
    count = int(counts[:3])
    check_count(count)
    return _rows(count, ((line[31:34].strip(), _places(line)) for line in itertools.islice(lines, count)))


def _places(line: str) -> list[str]:
    return [line[i : i + 10] for i in (0, 10, 20)]


def _is_atom(line: str) -> bool:
    """Return whether a line begins with x, y and z as lines of atoms do, and not with whole numbers as bonds do."""
    try:
        return len([number(word) for word in _places(line)]) == 3
    except ValueError:
        return False


def _v3000(lines: Iterator[str]) -> np.ndarray:
    """Read M  V30 COUNTS atoms bonds ..., BEGIN ATOM, and INDEX SYMBOL X Y Z ... for each atom."""
    count = 0
    for line in lines:
        words = line.split()[2:]
        if words[:1] == ["COUNTS"] and len(words) > 1 and words[1].isdigit() and len(words[1]) < 10:
            count = int(words[1])
        if words[:2] == ["BEGIN", "ATOM"]:
            check_count(count)
            atoms = itertools.takewhile(lambda words: words[2:4] != ["END", "ATOM"], map(str.split, lines))
            return _rows(count, ((words[3], words[4:7]) for words in atoms if len(words) > 6))
        if line.startswith((END, "M  END")):
            break
    raise ValueError("it has no block of atoms (V3000)")


def _rows(count: int, atoms: Iterable[tuple[str, list[str]]]) -> np.ndarray:
    numbers, positions = [], []
    for symbol, words in atoms:
        if len(numbers) == count:
            raise ValueError(f"it says to have {count} atoms and has more")
        numbers.append(atomic_number(symbol))
        positions.append([number(word) for word in words])
    if len(numbers) < count:
        raise ValueError(f"it says to have {count} atoms and has {len(numbers)}")
    return to_rows(numbers, positions)
