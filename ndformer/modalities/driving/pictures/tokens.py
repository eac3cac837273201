"""Overlay of tokens on the picture of a sample: pillars from above, and patches in their cameras."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.canvas import Canvas, blended

NONE = -1  # a pixel without a token


class SensorScene(Canvas):
    """A picture (H, W, 3) uint8 with tokens in `windows` (V, 4), those of the cameras and the top view as the last.

    `above` (3, 4) maps meters to pixels of the top view. Tokens are pillars (N, 7) of `cell` meters, then patches (M,
    7) of cameras with `plane` rows and columns, at positions as adapters give them.
    """

    axes: ClassVar[Mapping[str, str]] = dict(X="meters", Y="meters")
    inches = 3.3  # larger than usual, because tokens are small

    def __init__(
        self,
        picture: np.ndarray,
        windows: np.ndarray,
        above: np.ndarray,
        pillars: np.ndarray,
        patches: np.ndarray,
        cell: float,
        plane: tuple[int, int],
    ) -> None:
        super().__init__(np.concatenate([pillars, patches])[:, :2])
        self.picture, self.windows, self.above, self.plane = picture, windows.astype(int), above, plane
        self.places, self.pillars = np.concatenate([pillars, patches]), len(pillars)
        self.owner = np.full(picture.shape[:2], NONE)  # (H, W) the token of each pixel
        half = cell * above[0, 0] / 2
        for token, (x, y) in enumerate(self._pixels(pillars)):
            left, top, right, bottom = np.rint([x - half, y - half, x + half, y + half]).astype(int)
            self._fill(len(windows) - 1, token, left, top, max(right, left + 1), max(bottom, top + 1))
        for token, (row, column) in enumerate(patches[:, 3:5] - 0.5, len(pillars)):
            camera = int(self.places[token, 2])
            left, top, right, bottom = self.windows[camera]
            across, down = (right - left) / plane[1], (bottom - top) / plane[0]
            ends = np.rint([column * across, row * down, (column + 1) * across, (row + 1) * down]).astype(int)
            self._fill(camera, token, *(ends + [left, top, left, top]))

    def _pixels(self, places: np.ndarray) -> np.ndarray:
        """Return the pixels (N, 2) x and y of positions in the top view."""
        return places[:, :2] @ self.above[:2, :2].T + self.above[:2, 3] + self.windows[-1, :2]

    def _fill(self, window: int, token: int, left: int, top: int, right: int, bottom: int) -> None:
        """Assign the part of a rectangle that lies in a window to a token."""
        low, high = self.windows[window, :2], self.windows[window, 2:]
        left, top = np.maximum([left, top], low)
        right, bottom = np.minimum([right, bottom], high)
        if left < right and top < bottom:
            self.owner[top:bottom, left:right] = token

    def plain(self, moment: int) -> np.ndarray:
        return self.picture

    def painted(self, colors: np.ndarray, moment: int) -> np.ndarray:
        over = np.concatenate([colors, np.zeros((1, 4))])[self.owner]  # NONE indexes the last
        gray = self.picture.mean(2, keepdims=True) * 0.6 + 70
        return blended(gray, over)

    def spot(self, token: int, moment: int) -> tuple[float, float] | None:
        rows, columns = np.nonzero(self.owner == token)
        return None if len(rows) == 0 else (float(rows.mean()), float(columns.mean()))

    @property
    def middle(self) -> int:
        """The pillar nearest to the center of all, or a patch in the middle of the first camera."""
        if self.pillars:
            pillar_places = self.coordinates[: self.pillars]
            return int(((pillar_places - (pillar_places.min(0) + pillar_places.max(0)) / 2) ** 2).sum(1).argmin())
        return int(np.abs(self.places[:, 2:5] - [0, self.plane[0] / 2, self.plane[1] / 2]).sum(1).argmin())

    def token(self, text: str) -> int:
        words = text.split(",")
        try:
            place = [float(word) for word in words]
        except ValueError:
            place = []
        if len(place) == 2 and self.pillars and np.isfinite(place).all():
            return int(((self.coordinates[: self.pillars] - place) ** 2).sum(1).argmin())
        if len(place) == 3:
            matches = np.flatnonzero((self.places[self.pillars :, 2:5] - [0, 0.5, 0.5] == place).all(1))
            if len(matches):
                return self.pillars + int(matches[0])
        raise DataError(f"query: expected {self.how}, got '{text}'", "set it with --query")

    def named(self, token: int) -> str:
        if token < self.pillars:
            return ",".join(f"{value:.3g}" for value in self.coordinates[token])
        return ",".join(f"{value:.0f}" for value in self.places[token, 2:5] - [0, 0.5, 0.5])

    @property
    def how(self) -> str:
        """Describe how to name a token: X,Y (a pillar, in meters) or C,Y,X (a patch)."""
        formats = []
        if self.pillars:
            pillar_places = self.coordinates[: self.pillars]
            low, high = pillar_places.min(0), pillar_places.max(0)
            formats.append(f"X,Y (a pillar, {low[0]:.3g} to {high[0]:.3g} and {low[1]:.3g} to {high[1]:.3g} meters)")
        if len(self.places) > self.pillars:
            cameras = "/".join(f"{camera:.0f}" for camera in np.unique(self.places[self.pillars :, 2]))
            rows, columns = self.plane
            formats.append(f"C,Y,X (a patch of camera {cameras}, row 0 to {rows - 1}, column 0 to {columns - 1})")
        return " or ".join(formats)
