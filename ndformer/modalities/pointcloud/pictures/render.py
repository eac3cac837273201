"""Renderer of triangle meshes with shading and parallel projection: a z-buffer in numpy."""

import math
from collections.abc import Callable

import numpy as np

Paint = Callable[[np.ndarray], np.ndarray]  # positions (K, 3) on the mesh -> colors (K, 3) in 0..1
SMOOTH = 2  # supersampling factor
BACKGROUND = (0.1, 0.1, 0.1)
LIGHT = np.array([-0.4, 0.6, 0.7]) / math.sqrt(0.4**2 + 0.6**2 + 0.7**2)  # right, up, towards the viewer


def view_axes(azimuth: float, elevation: float) -> np.ndarray:
    """Return rows (3, 3): the image's right, its up, and the direction towards the viewer; y is up.

    At 0, 0 degrees the viewer is on the z axis; azimuth turns it towards x, elevation turns it up.
    """
    a, e = math.radians(azimuth), math.radians(elevation)
    right = (math.cos(a), 0, -math.sin(a))
    up = (-math.sin(a) * math.sin(e), math.cos(e), -math.cos(a) * math.sin(e))
    toward = (math.sin(a) * math.cos(e), math.sin(e), math.cos(a) * math.cos(e))
    return np.array([right, up, toward])


def white(places: np.ndarray) -> np.ndarray:
    return np.full((len(places), 3), 0.85)


def render(
    vertices: np.ndarray,
    faces: np.ndarray,
    size: int,
    azimuth: float,
    elevation: float,
    paint: Paint = white,
) -> np.ndarray:
    """Render a mesh as (size, size, 3) uint8: the square from -1 to 1 around the origin, facing the viewer."""
    wide = SMOOTH * size
    axes = view_axes(azimuth, elevation)
    view_points = vertices @ axes.T  # (V, 3)
    corners = view_points[faces]  # (F, 3, 3)
    pixels = np.stack([(corners[..., 0] + 1) * wide / 2 - 0.5, (1 - corners[..., 1]) * wide / 2 - 0.5], -1)  # (F, 3, 2)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    front = normal[:, 2] > 1e-12  # other faces point away
    pixels, corners, normal, faces = pixels[front], corners[front], normal[front], faces[front]

    # list every pixel of every triangle's bounding box
    low = np.ceil(pixels.min(1)).clip(0, wide).astype(int)  # (F, 2) x, y
    spans = (np.floor(pixels.max(1)).clip(-1, wide - 1).astype(int) - low + 1).clip(0)
    counts = spans.prod(1)
    face = np.repeat(np.arange(len(pixels)), counts)  # (K,)
    offset = np.arange(len(face)) - np.repeat(np.cumsum(counts) - counts, counts)
    x = low[face, 0] + offset % np.maximum(spans[face, 0], 1)
    y = low[face, 1] + offset // np.maximum(spans[face, 0], 1)

    # barycentric coordinates of each pixel
    a, b, c = pixels[face].transpose(1, 0, 2)
    across = lambda p, q: (q[:, 0] - p[:, 0]) * (y - p[:, 1]) - (q[:, 1] - p[:, 1]) * (x - p[:, 0])
    shares = np.stack([across(b, c), across(c, a), across(a, b)], 1)
    total = shares.sum(1, keepdims=True)
    shares = shares / np.where(total == 0, 1, total)  # (K, 3)
    inside = (shares >= 0).all(1) & (total[:, 0] != 0)
    face, x, y, shares = face[inside], x[inside], y[inside], shares[inside]
    depth = (shares * corners[face, :, 2]).sum(1)

    # numpy keeps the last of equal indices, so the nearest come last
    order = np.argsort(depth, kind="stable")
    nearest = np.full((wide, wide), -1)
    nearest[y[order], x[order]] = order
    hit = nearest[nearest >= 0]
    places = (shares[hit, :, None] * vertices[faces[face[hit]]]).sum(1)  # (K, 3)
    facing = normal[face[hit]] @ LIGHT / np.linalg.norm(normal[face[hit]], axis=1)
    canvas = np.full((wide, wide, 3), BACKGROUND, float)
    canvas[nearest >= 0] = paint(places) * (0.35 + 0.65 * facing.clip(0))[:, None]
    smooth = canvas.reshape(size, SMOOTH, size, SMOOTH, 3).mean((1, 3))
    return (smooth.clip(0, 1) * 255).round().astype(np.uint8)
