"""Pictures of point clouds: shaded discs seen from several sides, in numpy and Pillow."""

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from ndformer.framework.pictures.canvas import distinct_colors
from ndformer.modalities.pointcloud.pictures.render import LIGHT, view_axes

VIEWS = ((35.0, 25.0), (125.0, 25.0), (35.0, 70.0))  # azimuth and elevation in degrees: two corners, and from above
SMOOTH = 2  # supersampling factor
TOKENS_SIZE = 420  # pixels of a picture of tokens
UNUSED, CENTER = 200, 0  # gray of a point in no token, and of centers
INK, PAPER = np.array([70, 112, 168]), np.array([250, 250, 250])
PALETTE = np.array(  # Okabe and Ito's palette, safe for color-blind readers
    [(0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (150, 150, 150)]
)


def class_colors(labels: np.ndarray) -> np.ndarray:
    """Return colors (N, 3) uint8 for labels (N,): a palette that darkens with each repetition; gray where negative."""
    rounds = np.maximum(labels, 0) // len(PALETTE)
    colors = PALETTE[labels % len(PALETTE)] * (0.7**rounds)[:, None]
    return np.where(labels[:, None] < 0, 200, colors).astype(np.uint8)


def draw(
    points: np.ndarray,
    colors: np.ndarray | None = None,
    size: int = 256,
    views: Sequence[tuple[float, float]] = VIEWS,
    up: str = "y",
    shade: float = 0.35,
) -> Image.Image:
    """Draw points (N, 3), or (N, 6) with normals, from each view, side by side.

    `colors` (N, 3) uint8 has one for each point. The farthest points keep the share `shade` of their color.
    """
    flat = points[:, [1, 2, 0, *([4, 5, 3] if points.shape[1] == 6 else [])]] if up == "z" else points
    return Image.fromarray(np.concatenate([_view(flat, colors, size, shade, *view) for view in views], 1))


def _view(
    points: np.ndarray, colors: np.ndarray | None, size: int, shade: float, azimuth: float, elevation: float
) -> np.ndarray:
    """Draw one view (size, size, 3) uint8: near discs cover far ones, far discs fade, discs at an angle are darker."""
    place, normals = points[:, :3], points[:, 3:6] if points.shape[1] == 6 else None
    middle = (place.min(0) + place.max(0)) / 2
    radius_all = max(float(np.linalg.norm(place - middle, axis=1).max()), 1e-9)
    axes = view_axes(azimuth, elevation)  # (3, 3): right, up, towards the viewer
    view_points = (place - middle) / radius_all @ axes.T  # (N, 3) in -1..1
    color = np.broadcast_to(INK, place.shape) if colors is None else colors
    closeness = (0.5 + 0.5 * view_points[:, 2:]).clip(0, 1)
    strength, light, hidden = shade + (1 - shade) * closeness, np.ones(1), np.zeros(len(place), bool)
    if normals is not None:
        facing = normals @ axes.T  # (N, 3)
        hidden = facing[:, 2] < -0.05  # on the far side: drawn faintly, behind the others
        faint = 0.15 if colors is None else 0.6 * strength  # hidden points of scans, with rough normals, stay visible
        strength = np.where(hidden[:, None], faint, strength)
        light = 0.5 + 0.75 * (facing @ LIGHT).clip(0)[:, None]
    shaded = (PAPER + strength * ((color * light).clip(0, 255) - PAPER)).clip(0, 255)
    wide = SMOOTH * size
    radius = SMOOTH * (0.5 + 0.42 * size / math.sqrt(len(place)))  # discs large enough to close the surface
    index = discs(view_points, np.lexsort([view_points[:, 2], ~hidden]), wide, radius)
    canvas = np.where(index[..., None] >= 0, shaded[index], PAPER).astype(np.uint8)
    return canvas.reshape(size, SMOOTH, size, SMOOTH, 3).mean((1, 3)).astype(np.uint8)


def discs(projected: np.ndarray, order: np.ndarray, wide: int, radius: float) -> np.ndarray:
    """Draw points in -1..1 as discs, in an order: return the point (wide, wide) of each pixel, -1 for none."""
    steps = np.arange(-math.ceil(radius), math.ceil(radius) + 1)
    dy, dx = (grid.ravel() for grid in np.meshgrid(steps, steps, indexing="ij"))
    dx, dy = dx[dx**2 + dy**2 <= radius**2], dy[dx**2 + dy**2 <= radius**2]
    x, y = pixels(projected[order], wide)
    x, y = x.astype(int)[:, None] + dx, y.astype(int)[:, None] + dy  # (N, D)
    inside = (x >= 0) & (x < wide) & (y >= 0) & (y < wide)
    index = np.full((wide, wide), -1)
    index[y[inside], x[inside]] = np.broadcast_to(order[:, None], x.shape)[inside]  # the last of equal indices stays
    return index


def pixels(projected: np.ndarray, wide: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y in pixels of points (N, 2 or more) in -1..1."""
    return (projected[:, 0] * 0.94 + 1) * wide / 2, (1 - projected[:, 1] * 0.94) * wide / 2


def draw_groups(cloud: np.ndarray, index: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Draw points (N, 3 + features) in the colors of their centers, centers in black and points of no token in gray.

    `index` (M, K) has the neighbors of each center, nearest first, and `inside` masks the valid ones. A point of
    several centers has the color of the one in whose list it comes first.
    """
    colors = np.full((len(cloud), 3), UNUSED, np.uint8)
    center_colors = (255 * distinct_colors(len(index))[:, :3]).round()
    for place in range(index.shape[1] - 1, -1, -1):
        counts = inside[:, place]
        colors[index[counts, place]] = center_colors[counts]
    colors[index[:, 0]] = CENTER  # a center is its own nearest neighbor
    return np.asarray(draw(cloud[:, :3], colors, TOKENS_SIZE, shade=0.75))
