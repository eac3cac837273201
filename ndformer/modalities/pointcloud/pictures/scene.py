"""A point cloud to draw values of its tokens on: from one side, or turning."""

import math
from functools import lru_cache

import numpy as np
import torch

from ndformer.framework.pictures.canvas import Canvas, blended
from ndformer.framework.pictures.explorer.view import Cloud
from ndformer.modalities.pointcloud.pictures.render import view_axes

SIZE, SMOOTH = 200, 2  # of a picture; drawn so many times larger, then shrunk
TURNS, AZIMUTH, ELEVATION = 24, 125.0, 28.0  # pictures of a whole turn, and where it begins
PAPER, INK = np.array([18, 18, 24]), np.array([150, 170, 200])
FAR = 0.45  # what is left of a colour at the far end


class TurningCloud(Canvas):
    """Points (n, 3), with colours of their own (n, 3) or None, on dark paper: a point shows its nearest token."""

    axes = dict(X="x", Y="y", Z="z")
    moments, seconds = TURNS, 0.1

    def __init__(self, points: np.ndarray, colours: np.ndarray | None, places: np.ndarray) -> None:
        super().__init__(places)
        self.own = np.broadcast_to(INK, points.shape) if colours is None else colours
        up = (lambda at: at[:, [1, 2, 0]]) if colours is not None else (lambda at: at)  # scanners know where up is: z
        self.points, at = up(points.astype(float)), up(places)
        self.token_of = _nearest(self.points, at)  # (n,)
        self.middle_of_all = (self.points.min(0) + self.points.max(0)) / 2
        around = self.points - self.middle_of_all
        sides = (np.abs(around @ self._axes(moment)[:2].T).max() for moment in range(TURNS))
        self.reach = max(*map(float, sides), 1e-9)  # all of it is seen, from wherever
        self.at = (at - self.middle_of_all) / self.reach
        self._seen = lru_cache(TURNS)(self._look)

    def _axes(self, moment: int) -> np.ndarray:
        return view_axes(AZIMUTH + 360 * moment / TURNS, ELEVATION)

    def _look(self, moment: int) -> tuple[np.ndarray, np.ndarray]:
        """(wide, wide): the point at each pixel, -1 where there is none, and how much of its colour is left."""
        seen = (self.points - self.middle_of_all) / self.reach @ self._axes(moment).T  # (n, 3)
        wide = SMOOTH * SIZE
        radius = SMOOTH * min(0.5 + 0.42 * SIZE / math.sqrt(len(seen)), SIZE / 24)
        steps = np.arange(-math.ceil(radius), math.ceil(radius) + 1)
        dy, dx = (grid.ravel() for grid in np.meshgrid(steps, steps, indexing="ij"))
        dx, dy = dx[dx**2 + dy**2 <= radius**2], dy[dx**2 + dy**2 <= radius**2]
        order = seen[:, 2].argsort()  # the nearest come last, and numpy keeps the last of equal places
        x, y = self._pixels(seen[order], wide)
        x, y = x.astype(int)[:, None] + dx, y.astype(int)[:, None] + dy  # (n, D)
        inside = (x >= 0) & (x < wide) & (y >= 0) & (y < wide)
        found = np.full((wide, wide), -1)
        found[y[inside], x[inside]] = np.broadcast_to(order[:, None], x.shape)[inside]
        low, high = seen[:, 2].min(), seen[:, 2].max()
        near = FAR + (1 - FAR) * (seen[:, 2] - low) / max(high - low, 1e-9)
        return found, np.where(found >= 0, near[found], 0.0)[..., None]

    @staticmethod
    def _pixels(seen: np.ndarray, wide: int) -> tuple[np.ndarray, np.ndarray]:
        return (seen[:, 0] * 0.94 + 1) * wide / 2, (1 - seen[:, 1] * 0.94) * wide / 2

    def _drawn(self, colours: np.ndarray, moment: int) -> np.ndarray:
        """Of points in colours (n, 3)."""
        found, left = self._seen(moment)
        pixels = PAPER + left * (colours[found] - PAPER)
        return pixels.reshape(SIZE, SMOOTH, SIZE, SMOOTH, 3).mean((1, 3)).astype(np.uint8)

    def plain(self, moment: int) -> np.ndarray:
        return self._drawn(self.own, moment)

    def painted(self, colours: np.ndarray, moment: int) -> np.ndarray:
        return self._drawn(blended(np.full((1, 3), 150.0), colours)[self.token_of], moment)

    def view(self) -> Cloud:
        return Cloud(self.points, self.token_of, self.at * self.reach + self.middle_of_all)

    def spot(self, token: int, moment: int) -> tuple[float, float]:
        x, y = self._pixels(self.at[token][None] @ self._axes(moment).T, SIZE)
        return float(y[0]) - 0.5, float(x[0]) - 0.5


def _nearest(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(n,) of (n, 3): which of (N, 3) is nearest to each."""
    to = torch.from_numpy(places)
    part = max(1, 2**22 // len(places))
    return torch.cat([torch.cdist(some, to).argmin(1) for some in torch.from_numpy(points).split(part)]).numpy()
