"""Molecules as balls and sticks: atoms by element, bonds by distance, from one side or turning."""

import math

import numpy as np
from PIL import Image, ImageDraw

from ndformer.framework.pictures.canvas import Canvas, blended
from ndformer.framework.pictures.view import Cloud
from ndformer.modalities.molecules.formats.elements import RADII, SYMBOLS, bonds

SIZE, SMOOTH = 240, 2  # pixels of a picture; supersampling factor
TURNS, TILT = 24, math.radians(20)  # pictures of a full turn, and the elevation of the viewer
PAPER, STICK, EDGE = (255, 255, 255), (150, 150, 150), (60, 60, 60)
BALL, MARGIN = 0.55, 0.9  # radius of a ball in covalent radii; Angstrom around the molecule
# The explorer draws points: sizes of an atom by its covalent radius, and of the dots along a bond; their distance, in
# parts of the molecule's radius
ATOM_SIZE, DOT_SIZE, DOT_STEP = 3.0, 0.4, 0.02
UNMARKED = np.array([225.0, 225.0, 225.0])  # balls under the colors of token values

# Colors of elements by atomic number, as molecule viewers have them; others are pink
COLORS = np.tile(np.array([221, 119, 255]), (len(RADII), 1))
COLORS[[1, 6, 7, 8, 9]] = [(240, 240, 240), (90, 90, 90), (60, 90, 230), (225, 40, 40), (130, 210, 90)]
COLORS[[15, 16, 17, 35, 53]] = [(255, 140, 0), (230, 200, 40), (40, 200, 40), (150, 50, 30), (120, 20, 150)]


def flat(positions: np.ndarray) -> np.ndarray:
    """Return positions (n, 3) rotated so that the molecule is widest along x and thinnest along z."""
    around = positions.astype(np.float64) - positions.mean(0)
    axes = np.linalg.svd(around, full_matrices=True)[2]
    axes[2] *= np.sign(np.linalg.det(axes))  # a reflection would show the mirror image
    return around @ axes.T


class TurningMolecule(Canvas):
    """A molecule (n, 4) of atomic numbers and positions; each atom is a token at one of `places` (n, 3)."""

    axes = dict(X="x", Y="y", Z="z")
    moments, seconds = TURNS, 0.1
    shows_tokens = True

    def __init__(self, molecule: np.ndarray, places: np.ndarray) -> None:
        super().__init__(places)
        self.numbers = molecule[:, 0].astype(np.int64)
        self.atoms = flat(molecule[:, 1:4])
        self.bonds = bonds(self.numbers, self.atoms)
        self.extent = float(np.linalg.norm(self.atoms, axis=1).max()) + MARGIN

    def _rotate(self, moment: int) -> np.ndarray:
        """Return the positions (n, 3) to the right, up and towards the viewer."""
        turn, (c, s) = 2 * math.pi * moment / TURNS, (math.cos(TILT), math.sin(TILT))
        a, b = math.cos(turn), math.sin(turn)
        around = np.array([[a, 0, b], [0, 1, 0], [-b, 0, a]])
        return self.atoms @ (np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ around).T

    def _pixels(self, places: np.ndarray) -> np.ndarray:
        """Return (n, 2) x and y in a picture of SIZE."""
        return SIZE / 2 * (1 + places[:, :2] * (1, -1) / self.extent)

    def _draw(self, colors: np.ndarray, moment: int) -> np.ndarray:
        view_points = self._rotate(moment)
        places, scale = SMOOTH * self._pixels(view_points), SMOOTH * SIZE / 2 / self.extent
        sheet = Image.new("RGB", (SMOOTH * SIZE, SMOOTH * SIZE), PAPER)
        pen = ImageDraw.Draw(sheet)
        for i, j in self.bonds:
            pen.line([*places[i], *places[j]], fill=STICK, width=max(1, round(0.16 * scale)))
        for i in view_points[:, 2].argsort():  # near atoms hide far ones
            (x, y), radius = places[i], BALL * RADII[self.numbers[i]] * scale
            box = (x - radius, y - radius, x + radius, y + radius)
            pen.ellipse(box, fill=tuple(int(value) for value in colors[i]), outline=EDGE, width=SMOOTH)
        return np.asarray(sheet.resize((SIZE, SIZE), Image.Resampling.LANCZOS))

    def plain(self, moment: int) -> np.ndarray:
        return self._draw(COLORS[self.numbers], moment)

    def painted(self, colors: np.ndarray, moment: int) -> np.ndarray:
        return self._draw(blended(UNMARKED[None], colors), moment)

    def view(self) -> Cloud:
        n, dots = len(self.atoms), self._dots()
        return Cloud(
            np.concatenate([self.atoms, dots]),
            np.concatenate([np.arange(n), np.full(len(dots), -1)]),
            self.atoms,
            sizes=np.concatenate([ATOM_SIZE * RADII[self.numbers], np.full(len(dots), DOT_SIZE)]),
            names=[self._name(i) for i in range(n)],
        )

    def _dots(self) -> np.ndarray:
        """Return points (D, 3) along the bonds."""
        step, lines = DOT_STEP * (self.extent - MARGIN), [np.empty((0, 3))]
        for i, j in self.bonds:
            along = self.atoms[j] - self.atoms[i]
            shares = np.linspace(0, 1, max(2, math.ceil(float(np.linalg.norm(along)) / step)))
            lines.append(self.atoms[i] + shares[:, None] * along)
        return np.concatenate(lines)

    def _name(self, token: int) -> str:
        """Return the element and the number of an atom in its file, from 1: O 1."""
        return f"{SYMBOLS[self.numbers[token]]} {token + 1}"

    def named(self, token: int) -> str:
        return f"{self._name(token)} at {super().named(token)}"

    def spot(self, token: int, moment: int) -> tuple[float, float]:
        x, y = self._pixels(self._rotate(moment))[token]
        return float(y), float(x)


def draw(molecule: np.ndarray) -> np.ndarray:
    """Return a picture (SIZE, SIZE, 3) uint8 of a molecule (n, 4) from its flat side."""
    return TurningMolecule(molecule, molecule[:, 1:4]).plain(0)
