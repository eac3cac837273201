"""Generated cameras: boxes drawn far to near, shaded by their sides, on ground and sky."""

import numpy as np
from PIL import Image, ImageDraw

from ndformer.framework.pictures.solids import NEAREST, corners

FACES = np.array([(0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (2, 3, 7, 6), (0, 3, 7, 4), (1, 2, 6, 5)])  # of corners
SHADES = (1.0, 0.75, 1.1, 0.4, 0.85, 0.85)  # front, back, top, bottom, left, right
GROUND, SKY = np.array([70.0, 70, 75]), np.array([150.0, 180, 215])
NOISE = 8.0


def picture(
    boxes: np.ndarray, colours: np.ndarray, to_camera: np.ndarray, lens: np.ndarray, size: tuple[int, int],
    rng: np.random.Generator,
) -> Image.Image:  # fmt: skip
    """Of `size` (height, width): boxes in a frame from which `to_camera` (4, 4) leads to that of the camera."""
    height, width = size
    horizon = int(np.clip(lens[1, 2], 0, height))  # cameras stand upright
    sheet = np.empty((height, width, 3))
    sheet[:horizon], sheet[horizon:] = SKY, GROUND
    drawn = Image.fromarray(sheet.astype(np.uint8))
    pen = ImageDraw.Draw(drawn)
    seen = corners(boxes) @ to_camera[:3, :3].T + to_camera[:3, 3]  # (K, 8, 3)
    faces = seen[:, FACES].reshape(-1, 4, 3)  # (6 K, 4, 3)
    ahead = faces[..., 2] >= NEAREST
    shades = np.clip(255 * colours[:, None] * np.array(SHADES)[:, None], 0, 255).astype(int).reshape(-1, 3).tolist()
    for i in np.argsort(-np.linalg.norm(faces.mean(1), axis=1), kind="stable"):
        if ahead[i].any():
            face = faces[i] if ahead[i].all() else _before(faces[i])
            flat = face @ lens.T
            pen.polygon((flat[:, :2] / flat[:, 2:]).ravel().tolist(), fill=tuple(shades[i]))
    pixels = np.asarray(drawn) + rng.normal(0, NOISE, (height, width, 1))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def _before(face: np.ndarray) -> np.ndarray:
    """What of a polygon (n, 3) is in front of a camera (Sutherland and Hodgman)."""
    kept: list[np.ndarray] = []
    for a, b in zip(face, np.roll(face, -1, axis=0)):
        if a[2] >= NEAREST:
            kept.append(a)
        if (a[2] >= NEAREST) != (b[2] >= NEAREST):
            kept.append(a + (NEAREST - a[2]) / (b[2] - a[2]) * (b - a))
    return np.array(kept).reshape(-1, 3)
