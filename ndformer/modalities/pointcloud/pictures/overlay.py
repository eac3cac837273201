"""Overlay of token values on a point cloud, from one side or turning."""

import math
from functools import lru_cache

import numpy as np
import torch

from ndformer.framework.pictures.canvas import Canvas, blended
from ndformer.framework.pictures.view import Cloud
from ndformer.modalities.pointcloud.pictures.clouds import discs, pixels
from ndformer.modalities.pointcloud.pictures.render import view_axes

SIZE, SMOOTH = 200, 2  # pixels of a picture; supersampling factor
TURNS, AZIMUTH, ELEVATION = 24, 125.0, 28.0  # pictures of a full turn, and the first viewing direction
PAPER, INK = np.array([18, 18, 24]), np.array([150, 170, 200])
FAR = 0.45  # share of the color that the farthest points keep


class TurningCloud(Canvas):
    """Points (n, 3), with colors (n, 3) or None, on a dark background; each point shows its nearest token."""

    axes = dict(X="x", Y="y", Z="z")
    moments, seconds = TURNS, 0.1

    def __init__(self, points: np.ndarray, colors: np.ndarray | None, places: np.ndarray) -> None:
        super().__init__(places)
        self.base_colors = np.broadcast_to(INK, points.shape) if colors is None else colors
        # scanned clouds, which have colors, have z up
        up = (lambda xyz: xyz[:, [1, 2, 0]]) if colors is not None else (lambda xyz: xyz)
        self.points, token_places = up(points.astype(float)), up(places)
        self.nearest_token = _nearest(self.points, token_places)  # (n,)
        self.center = (self.points.min(0) + self.points.max(0)) / 2
        around = self.points - self.center
        sides = (np.abs(around @ self._axes(moment)[:2].T).max() for moment in range(TURNS))
        self.radius = max(*map(float, sides), 1e-9)  # all points are visible from each direction
        self.token_places = (token_places - self.center) / self.radius
        self._view_cache = lru_cache(TURNS)(self._rasterize)

    def _axes(self, moment: int) -> np.ndarray:
        return view_axes(AZIMUTH + 360 * moment / TURNS, ELEVATION)

    def _rasterize(self, moment: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the point at each pixel (wide, wide), -1 for none, and the share of its color that is left."""
        view_points = (self.points - self.center) / self.radius @ self._axes(moment).T  # (n, 3)
        wide = SMOOTH * SIZE
        radius = SMOOTH * min(0.5 + 0.42 * SIZE / math.sqrt(len(view_points)), SIZE / 24)
        index = discs(view_points, view_points[:, 2].argsort(), wide, radius)
        low, high = view_points[:, 2].min(), view_points[:, 2].max()
        closeness = FAR + (1 - FAR) * (view_points[:, 2] - low) / max(high - low, 1e-9)
        return index, np.where(index >= 0, closeness[index], 0.0)[..., None]

    def _draw(self, colors: np.ndarray, moment: int) -> np.ndarray:
        index, left = self._view_cache(moment)
        pixels = PAPER + left * (colors[index] - PAPER)
        return pixels.reshape(SIZE, SMOOTH, SIZE, SMOOTH, 3).mean((1, 3)).astype(np.uint8)

    def plain(self, moment: int) -> np.ndarray:
        return self._draw(self.base_colors, moment)

    def painted(self, colors: np.ndarray, moment: int) -> np.ndarray:
        return self._draw(blended(np.full((1, 3), 150.0), colors)[self.nearest_token], moment)

    def view(self) -> Cloud:
        return Cloud(self.points, self.nearest_token, self.token_places * self.radius + self.center)

    def spot(self, token: int, moment: int) -> tuple[float, float]:
        x, y = pixels(self.token_places[token][None] @ self._axes(moment).T, SIZE)
        return float(y[0]) - 0.5, float(x[0]) - 0.5


def _nearest(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the index (n,) of the nearest of `places` (N, 3) for each of `points` (n, 3)."""
    to = torch.from_numpy(places)
    part = max(1, 2**22 // len(places))
    return torch.cat([torch.cdist(some, to).argmin(1) for some in torch.from_numpy(points).split(part)]).numpy()
