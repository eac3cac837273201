"""Chemical elements: symbols, and radii to find bonds by distance."""

import numpy as np

_IN_ORDER = (
    "X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv "
    "Ts Og"
)
SYMBOLS = tuple(_IN_ORDER.split())  # by atomic number; 0 is no element
KINDS = len(SYMBOLS)
NUMBERS = {symbol: number for number, symbol in enumerate(SYMBOLS) if number} | {"D": 1, "T": 1}  # isotopes of H

# Covalent radii in Angstrom (Cordero 2008), the default for others
RADII = np.full(KINDS, 1.5)
RADII[[1, 5, 6, 7, 8, 9, 14, 15, 16, 17, 35, 53]] = (
    0.31,
    0.84,
    0.76,
    0.71,
    0.66,
    0.57,
    1.11,
    1.07,
    1.05,
    1.02,
    1.2,
    1.39,
)
SLACK = 1.25  # a bond is at most this times the sum of both radii
CLOSE = 0.5  # Angstrom, less than any bond
MAX_CHECKED = 1000  # atoms of a molecule whose distances are checked


def atomic_number(word: str) -> int:
    """Return the atomic number of a symbol such as C, CL or c, or of a number; raise ValueError."""
    number = int(word) if word.isascii() and word.isdigit() and len(word) <= 3 else NUMBERS.get(word.capitalize(), 0)
    if not 0 < number < KINDS:
        raise ValueError(f"'{word:.20}' is no chemical element")
    return number


def bonds(numbers: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the pairs (K, 2) of atoms that are close enough for a bond."""
    distance = np.linalg.norm(positions[:, None] - positions, axis=-1)  # (n, n)
    radius = RADII[numbers]
    return np.argwhere(np.triu(distance < SLACK * (radius[:, None] + radius), 1))


def formula(numbers: np.ndarray) -> str:
    """Return the formula in Hill's order, such as C2H6O."""
    counts = {SYMBOLS[number]: int(count) for number, count in zip(*np.unique(numbers, return_counts=True))}
    first = [symbol for symbol in ("C", "H") if symbol in counts] if "C" in counts else []
    order = [*first, *sorted(set(counts) - set(first))]
    return "".join(symbol + (str(counts[symbol]) if counts[symbol] > 1 else "") for symbol in order)


def lacks_hydrogen(numbers: np.ndarray) -> bool:
    """Return whether a molecule has carbon, more than three atoms, and no hydrogen: CO and CO2 need none."""
    return len(numbers) > 3 and NUMBERS["C"] in numbers and NUMBERS["H"] not in numbers


def unlikely_distances(numbers: np.ndarray, positions: np.ndarray) -> str:
    """Return what shows that positions (n, 3) are not in Angstrom, or ""."""
    if not 1 < len(numbers) <= MAX_CHECKED:
        return ""
    distance = np.linalg.norm(positions[:, None] - positions, axis=-1)[np.triu_indices(len(numbers), 1)]
    if distance.min() < CLOSE:
        return f"two atoms are closer than {CLOSE} Angstrom"
    return "" if len(bonds(numbers, positions)) else "no two atoms are as close as a bond"
