"""A sample as a picture: what six cameras see, and below it the cloud from above. Its views tell where boxes are."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from ndformer.framework import foreign

COLUMNS, WIDE = 3, 240  # cameras in a row, pixels of one
# CAMERAS, as one stands in the car: the front from left to right, then the back
ROWS = ((2, 0, 1), (4, 3, 5))
SIDE = COLUMNS * WIDE
PAPER, LOW, HIGH = (255, 255, 255), np.array([40.0, 60, 150]), np.array([240.0, 150, 40])
HEIGHTS = (-2.5, 2.0)  # metres over the sensor of the first and the last colour


def sheet(
    points: np.ndarray, images: Sequence[np.ndarray], intrinsics: np.ndarray, camera_to_lidar: np.ndarray, reach: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(H, W, 3) uint8 of points (N, 3 or more) up to `reach` metres and pictures (H, W, 3) uint8; (V, 3, 4) from space
    to pixels of each window, and (V, 4) left, top, right, bottom of the windows."""
    windows, views = layout([image.shape[:2] for image in images], intrinsics, camera_to_lidar, reach)
    foreign.check_pixels("a picture of all cameras", SIDE, int(windows[-1, 3]))
    paper = Image.new("RGB", (SIDE, int(windows[-1, 3])), PAPER)
    for image, (left, top, right, bottom) in zip(images, windows.tolist()):
        paper.paste(Image.fromarray(image).resize((right - left, bottom - top)), (left, top))
    paper.paste(Image.fromarray(from_above(points, views[-1])), windows[-1, :2].tolist())
    return np.asarray(paper), views, windows


def layout(
    sizes: Sequence[tuple[int, int]], intrinsics: np.ndarray, camera_to_lidar: np.ndarray, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """Windows (V, 4) and views (V, 3, 4) of cameras with pictures of these heights and widths, and from above."""
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
    views.append(np.array([[half / reach, 0, 0, half], [0, -half / reach, 0, half], [0, 0, 0, 1.0]]))
    return np.array(windows), np.array(views)


def from_above(points: np.ndarray, view: np.ndarray) -> np.ndarray:
    """(SIDE, SIDE, 3) uint8, the highest point of a pixel on top, coloured by its height."""
    pixels = np.full((SIDE, SIDE, 3), 255, np.uint8)
    order = np.argsort(points[:, 2], kind="stable")
    places = points[order, :3].astype(np.float64)
    column, row = np.floor(places @ view[:2, :3].T + view[:2, 3]).astype(np.int64).T
    there = (column >= 0) & (column < SIDE - 1) & (row >= 0) & (row < SIDE - 1)
    share = np.clip((places[there, 2:] - HEIGHTS[0]) / (HEIGHTS[1] - HEIGHTS[0]), 0, 1)
    for down, aside in ((0, 0), (0, 1), (1, 0), (1, 1)):  # of one pixel they would hardly be seen
        pixels[row[there] + down, column[there] + aside] = (LOW + share * (HIGH - LOW)).astype(np.uint8)
    return pixels
