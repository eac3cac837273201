"""Reader of .sdf and .mol files (V2000 and V3000): molecules with positions, separated by $$$$."""

from collections.abc import Iterator

import numpy as np

from ndformer.modalities.molecules.formats.elements import atomic_number
from ndformer.modalities.molecules.formats.molecule import check_count, to_rows
from ndformer.modalities.molecules.formats.xyz import number

END = "$$$$"


def molecules(lines: Iterator[str]) -> Iterator[np.ndarray]:
    """Yield the molecules (n, 4) of the lines of a file; raise ValueError."""
    while True:
        header = [line for _, line in zip(range(4), lines)]
        if not any(line.strip() for line in header):
            return
        if len(header) < 4:
            raise ValueError("it ends within the four lines before the atoms")
        if header[1][20:22].upper() == "2D":
            raise ValueError("it is a drawing in 2 dimensions, without a geometry")
        counts = header[3]
        yield _v3000(lines) if "V3000" in counts else _v2000(lines, counts)
        for line in lines:  # bonds and data are not read
            if line.startswith(END):
                break
        else:
            return


def _v2000(lines: Iterator[str], counts: str) -> np.ndarray:
    if not counts[:3].strip().isdigit():
        raise ValueError(f"its fourth line must begin with the number of atoms, got '{counts.strip():.40}'")
    count = int(counts[:3])
    check_count(count)
    return _rows(count, ((line[31:34].strip(), [line[i : i + 10] for i in (0, 10, 20)]) for line in lines))


def _v3000(lines: Iterator[str]) -> np.ndarray:
    """Read M  V30 COUNTS atoms bonds ..., BEGIN ATOM, and INDEX SYMBOL X Y Z ... for each atom."""
    count = 0
    for line in lines:
        words = line.split()[2:]
        if words[:1] == ["COUNTS"] and len(words) > 1 and words[1].isdigit() and len(words[1]) < 10:
            count = int(words[1])
        if words[:2] == ["BEGIN", "ATOM"]:
            check_count(count)
            return _rows(count, ((words[3], words[4:7]) for words in map(str.split, lines) if len(words) > 6))
        if line.startswith((END, "M  END")):
            break
    raise ValueError("it has no block of atoms (V3000)")


def _rows(count: int, atoms: Iterator[tuple[str, list[str]]]) -> np.ndarray:
    numbers, positions = [], []
    for symbol, words in (atom for _, atom in zip(range(count), atoms)):
        numbers.append(atomic_number(symbol))
        positions.append([number(word) for word in words])
    if len(numbers) < count:
        raise ValueError(f"it says to have {count} atoms and has {len(numbers)}")
    return to_rows(numbers, positions)
