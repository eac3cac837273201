"""Simulated cameras: boxes drawn from far to near, with shaded sides, on ground and sky."""

import numpy as np
from PIL import Image, ImageDraw

from ndformer.framework.pictures.solids import NEAREST, corners

FACES = np.array([(0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (2, 3, 7, 6), (0, 3, 7, 4), (1, 2, 6, 5)])  # corner indices
SHADES = (1.0, 0.75, 1.1, 0.4, 0.85, 0.85)  # front, back, top, bottom, left, right
GROUND, SKY = np.array([70.0, 70, 75]), np.array([150.0, 180, 215])
NOISE = 8.0


def picture(
    boxes: np.ndarray, colours: np.ndarray, to_camera: np.ndarray, lens: np.ndarray, size: tuple[int, int],
    rng: np.random.Generator,
) -> Image.Image:  # fmt: skip
    """Render boxes with `size` (height, width); `to_camera` (4, 4) maps their frame to the camera's."""
    height, width = size
    horizon = int(np.clip(lens[1, 2], 0, height))  # cameras are upright
    sheet = np.empty((height, width, 3))
    sheet[:horizon], sheet[horizon:] = SKY, GROUND
    image = Image.fromarray(sheet.astype(np.uint8))
    pen = ImageDraw.Draw(image)
    local = corners(boxes) @ to_camera[:3, :3].T + to_camera[:3, 3]  # (K, 8, 3)
    faces = local[:, FACES].reshape(-1, 4, 3)  # (6 K, 4, 3)
    ahead = faces[..., 2] >= NEAREST
    shades = np.clip(255 * colours[:, None] * np.array(SHADES)[:, None], 0, 255).astype(int).reshape(-1, 3).tolist()
    for i in np.argsort(-np.linalg.norm(faces.mean(1), axis=1), kind="stable"):
        if ahead[i].any():
            face = faces[i] if ahead[i].all() else _before(faces[i])
            flat = face @ lens.T
            pen.polygon((flat[:, :2] / flat[:, 2:]).ravel().tolist(), fill=tuple(shades[i]))
    pixels = np.asarray(image) + rng.normal(0, NOISE, (height, width, 1))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def _before(face: np.ndarray) -> np.ndarray:
    """Clip a polygon (n, 3) to the part in front of a camera (Sutherland and Hodgman)."""
    clipped: list[np.ndarray] = []
    for a, b in zip(face, np.roll(face, -1, axis=0)):
        if a[2] >= NEAREST:
            clipped.append(a)
        if (a[2] >= NEAREST) != (b[2] >= NEAREST):
            clipped.append(a + (NEAREST - a[2]) / (b[2] - a[2]) * (b - a))
    return np.array(clipped).reshape(-1, 3)
