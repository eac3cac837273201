"""Canvases: a sample as an image or animation on which a color is drawn for each of its tokens."""

import colorsys
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.view import Cloud, Moments, View, points_view
from ndformer.moved import old_names

STILLS = 8  # moments of an animation on one sheet
SIDE, DOT = 200, 3  # pixels: side of a picture of dots, radius of a dot
TURN = 0.381966  # of the circle of hues, from one token to the next: the golden angle
OBLIQUE = (-0.23, -0.41)  # shift (down, right) of a dot per step towards the viewer


class Canvas:
    """Base class of canvases: implement `plain`, `painted` and `spot`, and `view` for the explorer.

    Adapters return them from canvas(). `coordinates` (N, P) are the readable positions of the tokens, without class and
    register tokens.
    """

    axes: ClassVar[Mapping[str, str]]  # letter and name of each axis: Y, row
    exact: ClassVar[bool] = False  # tokens are named by whole numbers; otherwise a position selects the nearest token
    moments: int = 1  # frames of an animation
    stills: Sequence[int] = (0,)  # frames that a sheet shows side by side
    seconds: float = 0.15  # duration of a frame
    inches: float = 1.1  # longer side of a panel
    shows_tokens: bool = False  # whether plain() already shows each token, so that its color may be that of the sample

    def __init__(self, coordinates: np.ndarray) -> None:
        self.coordinates = coordinates
        if len(coordinates) == 0:
            raise DataError("the sample has no tokens, so there is nothing to draw")

    def plain(self, moment: int) -> np.ndarray:
        """Return the sample as (H, W, 3) uint8."""
        raise NotImplementedError

    def painted(self, colors: np.ndarray, moment: int) -> np.ndarray:
        """Return the sample with RGBA colors (N, 4) in 0..1 of its tokens drawn over it."""
        raise NotImplementedError

    def spot(self, token: int, moment: int) -> tuple[float, float] | None:
        """Return the pixel (y, x) of a token, or None if it is not visible at this moment."""
        raise NotImplementedError

    def caption(self, moment: int) -> str:
        """Return a caption of the moment."""
        return ""

    def view(self) -> View:
        """Return the sample for the explorer, with tokens in order."""
        return points_view(self.coordinates.astype(np.float32))

    @property
    def middle(self) -> int:
        """Return the token nearest to the middle of all tokens, the later one of equals."""
        low, high = self.coordinates.min(0), self.coordinates.max(0)
        return self._nearest((low + high) / 2 + 1e-4 * (high - low))

    def _nearest(self, place: np.ndarray) -> int:
        return int(((self.coordinates - place) ** 2).sum(1).argmin())

    def token(self, text: str) -> int:
        """Return the token at a position given as text, such as 'Y,X', or the nearest one."""
        words = text.split(",")
        try:
            place = np.array([float(word) for word in words])
        except ValueError:
            place = np.full(0, math.nan)
        is_place = len(place) == len(self.axes) and bool(np.isfinite(place).all())
        token = self._nearest(place) if is_place else 0
        if not is_place or (self.exact and (self.coordinates[token] != place).any()):
            raise DataError(f"query: expected class or {self.how}, got '{text}'", "set it with --query")
        return token

    def named(self, token: int) -> str:
        return ",".join(f"{value:.3g}" for value in self.coordinates[token])

    @property
    def how(self) -> str:
        """Describe how to name a token: Y,X (row 0 to 7, column 0 to 7)."""
        ends = zip(self.axes.values(), self.coordinates.min(0), self.coordinates.max(0))
        return f"{','.join(self.axes)} ({', '.join(f'{name} {low:.3g} to {high:.3g}' for name, low, high in ends)})"


def blended(below: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Blend gray or RGB values 0..255 with RGBA colors (..., 4) in 0..1 over them; return (..., 3) uint8."""
    share = over[..., 3:]
    return (below * (1 - share) + 255 * over[..., :3] * share).clip(0, 255).astype(np.uint8)


class GridCanvas(Canvas):
    """A canvas of pictures (T, H, W, 3) uint8 with tokens on a grid (rows, columns) or (times, rows, columns)."""

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

    def painted(self, colors: np.ndarray, moment: int) -> np.ndarray:
        picture = self.pictures[moment]
        height, width = picture.shape[:2]
        cells = colors.reshape(*self.grid, 4)[self._time(moment)]  # (rows, columns, 4)
        _, rows, columns = self.grid
        over = cells[np.arange(height) * rows // height][:, np.arange(width) * columns // width]
        gray = picture.mean(2, keepdims=True) * 0.6 + 70  # visible under dark and bright colors
        return blended(gray, over)

    def spot(self, token: int, moment: int) -> tuple[float, float] | None:
        time, row, column = np.unravel_index(token, self.grid)
        if time != self._time(moment):
            return None
        height, width = self.pictures.shape[1:3]
        return (row + 0.5) * height / self.grid[1] - 0.5, (column + 0.5) * width / self.grid[2] - 0.5

    def caption(self, moment: int) -> str:
        return f"frame {moment + 1} of {self.moments}" if self.moments > 1 else ""

    def view(self) -> Moments:
        edges = [-(-np.arange(n + 1) * side // n) for n, side in zip(self.grid, self.pictures.shape)]
        first = np.stack(np.meshgrid(*(edge[:-1] for edge in edges), indexing="ij"), -1).reshape(-1, 3)
        end = np.stack(np.meshgrid(*(edge[1:] for edge in edges), indexing="ij"), -1).reshape(-1, 3)
        boxes = np.stack([first, end], 2).reshape(-1, 6)[:, [0, 1, 2, 4, 3, 5]]
        return Moments(list(self.pictures), boxes, [self.caption(moment) for moment in range(self.moments)])


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


class Dots(Canvas):
    """A canvas with dots at the positions (N, P) of tokens, for modalities that do not draw their samples.

    `axes` are the names of the P axes; points_view() defines their directions. A third axis is drawn obliquely, so that
    no token hides another one.
    """

    def __init__(self, positions: np.ndarray, axes: Sequence[str] = ()) -> None:
        super().__init__(positions)
        self.names = axis_names(axes, positions.shape[1])
        letters = [dict(row="Y", column="X").get(name, name[:1].upper()) for name in self.names]
        keys = letters if len(set(letters)) == len(letters) else self.names
        if not axes and positions.shape[1] != 2:
            keys = "ABCDEFGH"
        self.axes = dict(zip(keys, self.names))  # pyright: ignore[reportAttributeAccessIssue]
        x, y, z = self.view().centers.T
        plane = np.stack([-y - OBLIQUE[0] * z, x + OBLIQUE[1] * z], 1)  # (N, 2): down, right
        low, high = plane.min(0), plane.max(0)
        share = (plane - (low + high) / 2) / max(float((high - low).max()), 1e-9)  # -0.5 to 0.5
        self.pixels = (share * (SIDE - 4 * DOT) + SIDE / 2).astype(int)
        offsets = np.arange(-DOT, DOT + 1)
        disc = np.stack(np.meshgrid(offsets, offsets, indexing="ij"), -1).reshape(-1, 2)
        y, x = (self.pixels[:, None] + disc[(disc**2).sum(1) <= DOT**2]).transpose(2, 0, 1)  # (N, D) each
        self.pixel_tokens = np.full((SIDE, SIDE), -1)  # index of the token drawn at each pixel
        self.pixel_tokens[y, x] = np.arange(len(plane))[:, None]

    def view(self) -> Cloud:
        return points_view(self.coordinates.astype(np.float32), self.names)

    def plain(self, moment: int) -> np.ndarray:
        return self.painted(np.zeros((len(self.pixels), 4)), moment)

    def painted(self, colors: np.ndarray, moment: int) -> np.ndarray:
        over = np.concatenate([colors, np.zeros((1, 4))])[self.pixel_tokens]  # (SIDE, SIDE, 4)
        return blended(np.where(self.pixel_tokens < 0, 16.0, 150.0)[..., None], over)

    def spot(self, token: int, moment: int) -> tuple[float, float]:
        y, x = self.pixels[token]
        return float(y), float(x)


def distinct_colors(tokens: int) -> np.ndarray:
    """Return a color (N, 4) for each token; neighbors get hues that are far apart."""
    colors = [(*colorsys.hsv_to_rgb(i * TURN % 1, 0.9, (0.95, 0.7)[i % 2]), 0.45) for i in range(tokens)]
    return np.array(colors).reshape(-1, 4)


def stills(moments: int) -> list[int]:
    """Return at most STILLS evenly spaced moments."""
    count = min(moments, STILLS)
    return [int((i + 0.5) * moments / count) for i in range(count)]


__getattr__ = old_names(__name__, {"Scene": "Canvas", "GridScene": "GridCanvas"})
