"""Scene: a sample as a picture, or as one that moves or turns, with a colour for each of its tokens over it."""

import colorsys
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.explorer.view import Cloud, Moments, View, at_places

STILLS = 8  # of a scene that moves, as many as a sheet has room for
SIDE, DOT = 200, 3  # pixels of a picture of dots, of the radius of one
TURN = 0.381966  # of the circle of hues, from one token to the next: the golden angle
OBLIQUE = (-0.23, -0.41)  # how far down and right a step towards the viewer moves a dot


class Scene:
    """Extend it with `plain`, `painted` and `spot`, and with `view` for the explorer; an adapter's scene() makes one.
    `coordinates` (N, P) say where its tokens are, in numbers that people know; class and register tokens are none of
    it."""

    axes: ClassVar[Mapping[str, str]]  # a letter and a word for each of them: Y, row
    exact: ClassVar[bool] = False  # whether tokens are on whole numbers alone; else the one nearest to a place is meant
    moments: int = 1  # pictures of one that moves or turns
    stills: Sequence[int] = (0,)  # those of them to see side by side
    seconds: float = 0.15  # that each is seen
    inches: float = 1.1  # of a panel that it is drawn in, the longer side

    def __init__(self, coordinates: np.ndarray) -> None:
        self.coordinates = coordinates
        if len(coordinates) == 0:
            raise DataError("the sample has no tokens: there is nothing to look at")

    def plain(self, moment: int) -> np.ndarray:
        """(H, W, 3) uint8: the sample alone."""
        raise NotImplementedError

    def painted(self, colours: np.ndarray, moment: int) -> np.ndarray:
        """The same size, with colours (N, 4) in 0..1 over it; the last is how much they cover."""
        raise NotImplementedError

    def spot(self, token: int, moment: int) -> tuple[float, float] | None:
        """(y, x) of a token, in pixels; None where it is not seen."""
        raise NotImplementedError

    def says(self, moment: int) -> str:
        """Which moment it is."""
        return ""

    def view(self) -> View:
        """The same in the explorer: tokens in their order."""
        return at_places(self.coordinates.astype(np.float32))

    @property
    def middle(self) -> int:
        """The token nearest to the middle of all; of two alike, the later one."""
        low, high = self.coordinates.min(0), self.coordinates.max(0)
        return self._nearest((low + high) / 2 + 1e-4 * (high - low))

    def _nearest(self, place: np.ndarray) -> int:
        return int(((self.coordinates - place) ** 2).sum(1).argmin())

    def token(self, text: str) -> int:
        """The one that 'Y,X' names, or the one nearest to it."""
        words = text.split(",")
        try:
            place = np.array([float(word) for word in words])
        except ValueError:
            place = np.full(0, math.nan)
        if len(place) != len(self.axes) or not np.isfinite(place).all():
            raise DataError(f"who looks is class or {self.how}, got '{text}'", "--query names another")
        found = self._nearest(place)
        if self.exact and (self.coordinates[found] != place).any():
            raise DataError(f"who looks is class or {self.how}, got '{text}'", "--query names another")
        return found

    def named(self, token: int) -> str:
        return ",".join(f"{value:.3g}" for value in self.coordinates[token])

    @property
    def how(self) -> str:
        """How to name a token: Y,X (row 0 to 7, column 0 to 7)."""
        ends = zip(self.axes.values(), self.coordinates.min(0), self.coordinates.max(0))
        return f"{','.join(self.axes)} ({', '.join(f'{name} {low:.3g} to {high:.3g}' for name, low, high in ends)})"


def blended(below: np.ndarray, over: np.ndarray) -> np.ndarray:
    """(..., 3) uint8 of grey or coloured values 0..255 under colours (..., 4) in 0..1."""
    share = over[..., 3:]
    return (below * (1 - share) + 255 * over[..., :3] * share).clip(0, 255).astype(np.uint8)


class GridScene(Scene):
    """Pictures (T, H, W, 3) uint8, with tokens on a grid over them, (rows, columns) or (times, rows, columns)."""

    exact = True

    def __init__(self, pictures: np.ndarray, grid: tuple[int, ...]) -> None:
        axes = np.meshgrid(*map(np.arange, grid), indexing="ij")
        super().__init__(np.stack([axis.ravel() for axis in axes], 1).astype(float))
        self.pictures, self.grid = pictures, (1, *grid)[-3:]
        self.moments = len(pictures)
        self.stills = stills(self.moments)
        words = ("time", "row", "column")[-len(grid) :]
        self.axes = dict(zip("TYX"[-len(grid) :], words))  # pyright: ignore[reportAttributeAccessIssue]

    def plain(self, moment: int) -> np.ndarray:
        return self.pictures[moment]

    def _time(self, moment: int) -> int:
        return moment * self.grid[0] // self.moments

    def painted(self, colours: np.ndarray, moment: int) -> np.ndarray:
        picture = self.pictures[moment]
        height, width = picture.shape[:2]
        cells = colours.reshape(*self.grid, 4)[self._time(moment)]  # (rows, columns, 4)
        _, rows, columns = self.grid
        over = cells[np.arange(height) * rows // height][:, np.arange(width) * columns // width]
        grey = picture.mean(2, keepdims=True) * 0.6 + 70  # so that the darkest colour is seen on it, and the brightest
        return blended(grey, over)

    def spot(self, token: int, moment: int) -> tuple[float, float] | None:
        time, row, column = np.unravel_index(token, self.grid)
        if time != self._time(moment):
            return None
        height, width = self.pictures.shape[1:3]
        return (row + 0.5) * height / self.grid[1] - 0.5, (column + 0.5) * width / self.grid[2] - 0.5

    def says(self, moment: int) -> str:
        return f"frame {moment + 1} of {self.moments}" if self.moments > 1 else ""

    def view(self) -> Moments:
        edges = [-(-np.arange(n + 1) * side // n) for n, side in zip(self.grid, self.pictures.shape)]
        first = np.stack(np.meshgrid(*(edge[:-1] for edge in edges), indexing="ij"), -1).reshape(-1, 3)
        behind = np.stack(np.meshgrid(*(edge[1:] for edge in edges), indexing="ij"), -1).reshape(-1, 3)
        boxes = np.stack([first, behind], 2).reshape(-1, 6)[:, [0, 1, 2, 4, 3, 5]]
        return Moments(list(self.pictures), boxes, [self.says(moment) for moment in range(self.moments)])


def axis_names(axes: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names that an adapter gives to its axes, or a default for each of `count` axes."""
    if not axes:
        return ("row", "column") if count == 2 else tuple(f"axis {i}" for i in range(count))
    if len(axes) != count:
        raise DataError(
            f"`axes` of an adapter names each axis of its positions, got {len(axes)} names ({', '.join(axes)}) for "
            f"positions of {count} dimensions. Name {count}."
        )
    return tuple(axes)


class Dots(Scene):
    """Dots at the positions (N, P) of tokens, for a modality without a picture of its samples.

    `axes` are the names of the P axes; at_places() says which way each of them points. A third axis is drawn
    obliquely, so that no token hides behind another one.
    """

    def __init__(self, positions: np.ndarray, axes: Sequence[str] = ()) -> None:
        super().__init__(positions)
        self.names = axis_names(axes, positions.shape[1])
        letters = [dict(row="Y", column="X").get(name, name[:1].upper()) for name in self.names]
        keys = letters if len(set(letters)) == len(letters) else self.names
        if not axes and positions.shape[1] != 2:
            keys = "ABCDEFGH"
        self.axes = dict(zip(keys, self.names))  # pyright: ignore[reportAttributeAccessIssue]
        x, y, z = self.view().centres.T
        at = np.stack([-y - OBLIQUE[0] * z, x + OBLIQUE[1] * z], 1)  # (N, 2): down, right
        low, high = at.min(0), at.max(0)
        share = (at - (low + high) / 2) / max(float((high - low).max()), 1e-9)  # -0.5 to 0.5
        self.pixels = (share * (SIDE - 4 * DOT) + SIDE / 2).astype(int)
        reach = np.arange(-DOT, DOT + 1)
        disc = np.stack(np.meshgrid(reach, reach, indexing="ij"), -1).reshape(-1, 2)
        y, x = (self.pixels[:, None] + disc[(disc**2).sum(1) <= DOT**2]).transpose(2, 0, 1)  # (N, D) each
        self.shown = np.full((SIDE, SIDE), -1)  # of each pixel
        self.shown[y, x] = np.arange(len(at))[:, None]

    def view(self) -> Cloud:
        return at_places(self.coordinates.astype(np.float32), self.names)

    def plain(self, moment: int) -> np.ndarray:
        return self.painted(np.zeros((len(self.pixels), 4)), moment)

    def painted(self, colours: np.ndarray, moment: int) -> np.ndarray:
        over = np.concatenate([colours, np.zeros((1, 4))])[self.shown]  # (SIDE, SIDE, 4)
        return blended(np.where(self.shown < 0, 16.0, 150.0)[..., None], over)

    def spot(self, token: int, moment: int) -> tuple[float, float]:
        y, x = self.pixels[token]
        return float(y), float(x)


def distinct_colors(tokens: int) -> np.ndarray:
    """Return a color (N, 4) for each token; neighbors get hues that are far apart."""
    made = [(*colorsys.hsv_to_rgb(i * TURN % 1, 0.9, (0.95, 0.7)[i % 2]), 0.45) for i in range(tokens)]
    return np.array(made).reshape(-1, 4)


def stills(moments: int) -> list[int]:
    """Some of them, evenly, each in the middle of its share."""
    count = min(moments, STILLS)
    return [int((i + 0.5) * moments / count) for i in range(count)]
