"""Picture of a sample: the images of six cameras, and below them the cloud from above, with projections for boxes."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from ndformer.framework import foreign

COLUMNS, WIDE = 3, 240  # cameras in a row; pixels of a camera
# indices of CAMERAS as arranged on the car: the front from left to right, then the back
ROWS = ((2, 0, 1), (4, 3, 5))
SIDE = COLUMNS * WIDE
PAPER, LOW, HIGH = (255, 255, 255), np.array([40.0, 60, 150]), np.array([240.0, 150, 40])
HEIGHTS = (-2.5, 2.0)  # meters above the sensor of the first and the last color


def sheet(
    points: np.ndarray, images: Sequence[np.ndarray], intrinsics: np.ndarray, camera_to_lidar: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw points (N, 3 or more) up to `radius` meters and images (H, W, 3) uint8 on one sheet (H, W, 3) uint8.

    Also return the projections (V, 3, 4) to the pixels of each window, and the windows (V, 4): left, top, right,
    bottom.
    """
    windows, views = layout([image.shape[:2] for image in images], intrinsics, camera_to_lidar, radius)
    foreign.check_pixels("a picture of all cameras", SIDE, int(windows[-1, 3]))
    paper = Image.new("RGB", (SIDE, int(windows[-1, 3])), PAPER)
    for image, (left, top, right, bottom) in zip(images, windows.tolist()):
        paper.paste(Image.fromarray(image).resize((right - left, bottom - top)), (left, top))
    paper.paste(Image.fromarray(from_above(points, views[-1])), windows[-1, :2].tolist())
    return np.asarray(paper), views, windows


def layout(
    sizes: Sequence[tuple[int, int]], intrinsics: np.ndarray, camera_to_lidar: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return windows (V, 4) and projections (V, 3, 4) for cameras with images of these sizes, and for the top view."""
    windows, views, top = [], [], 0
    places = {camera: (row, column) for row, some in enumerate(ROWS) for column, camera in enumerate(some)}
    for camera, (height, width) in enumerate(sizes):
        row, column = places.get(camera, divmod(camera, COLUMNS))
        tall = max(1, round(WIDE * height / width))
        windows.append((column * WIDE, row * tall, (column + 1) * WIDE, (row + 1) * tall))
        top = max(top, windows[-1][3])
        scale = np.diag([WIDE / width, tall / height, 1.0])
        views.append(scale @ intrinsics[camera] @ np.linalg.inv(camera_to_lidar[camera])[:3])
    windows.append((0, top, SIDE, top + SIDE))
    half = SIDE / 2
    views.append(np.array([[half / radius, 0, 0, half], [0, -half / radius, 0, half], [0, 0, 0, 1.0]]))
    return np.array(windows), np.array(views)


def from_above(points: np.ndarray, view: np.ndarray) -> np.ndarray:
    """Draw points from above, (SIDE, SIDE, 3) uint8, colored by height, with the highest point on top."""
    pixels = np.full((SIDE, SIDE, 3), 255, np.uint8)
    order = np.argsort(points[:, 2], kind="stable")
    places = points[order, :3].astype(np.float64)
    column, row = np.floor(places @ view[:2, :3].T + view[:2, 3]).astype(np.int64).T
    inside = (column >= 0) & (column < SIDE - 1) & (row >= 0) & (row < SIDE - 1)
    share = np.clip((places[inside, 2:] - HEIGHTS[0]) / (HEIGHTS[1] - HEIGHTS[0]), 0, 1)
    for down, aside in ((0, 0), (0, 1), (1, 0), (1, 1)):  # 2 x 2 pixels, because single ones are hard to see
        pixels[row[inside] + down, column[inside] + aside] = (LOW + share * (HIGH - LOW)).astype(np.uint8)
    return pixels
