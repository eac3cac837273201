"""Simulated car: its motion, its LiDAR and its cameras. In the car's frame, x is ahead, y to the left, z up."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.formats.poses import about_z, poses, quaternion
from ndformer.modalities.driving.formats.solids import corners
from ndformer.modalities.driving.pictures.solids import NEAREST

HEIGHT, WIDTH = 96, 160  # pixels of a camera
ROOF, HOOD = 1.84, 1.5  # height of the LiDAR and of the cameras above the ground, in meters
TURNS = dict(zip(CAMERAS, (0, -55, 55, 180, 110, -110)))  # degrees to the left
WIDE = {name: 110 if name == "CAM_BACK" else 70 for name in CAMERAS}  # field of view in degrees
AXES = np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])  # camera axes (x right, y down, z ahead) in the car's frame


@dataclass(frozen=True, eq=False)
class Mount:
    """A sensor on the car."""

    channel: str
    place: list[float]
    turn: list[float]  # quaternion w x y z
    lens: list[Any]  # (3, 3) or []

    @property
    def pose(self) -> np.ndarray:
        """Pose (4, 4) to the frame of the car."""
        return poses(np.array(self.place), np.array(self.turn))


def mounts(rng: np.random.Generator) -> list[Mount]:
    """Return the sensors of a car, each with a small random misalignment."""
    off = lambda: float(rng.normal(0, 0.01))
    lidar = Mount(LIDAR, [0.94, 0.0, ROOF], quaternion(about_z(np.asarray(-math.pi / 2 + off()))).tolist(), [])
    sensors = [lidar]
    for name in CAMERAS:
        turn = math.radians(TURNS[name]) + off()
        focal = WIDTH / 2 / math.tan(math.radians(WIDE[name]) / 2)
        lens = [[focal, 0.0, WIDTH / 2 + 40 * off()], [0.0, focal, HEIGHT * 0.45], [0.0, 0.0, 1.0]]
        place = [0.5 + math.cos(turn), 0.5 * math.sin(turn), HOOD + off()]
        sensors.append(Mount(name, place, quaternion(about_z(np.asarray(turn)) @ AXES).tolist(), lens))
    return sensors


@dataclass(frozen=True, eq=False)
class Drive:
    """A drive along a street that has a random place in the map."""

    street: np.ndarray  # (4, 4) from the street to the map
    start: float
    speed: float
    sway: float

    @classmethod
    def somewhere(cls, rng: np.random.Generator, seconds: float) -> "Drive":
        street = np.eye(4)
        street[:3, :3], street[:2, 3] = about_z(np.asarray(rng.uniform(-math.pi, math.pi))), rng.uniform(200, 1500, 2)
        speed = rng.uniform(2, 6)
        return cls(street, -speed * seconds / 2, speed, rng.uniform(-0.05, 0.05))

    def pose(self, time: float) -> np.ndarray:
        """Return the pose (4, 4) from the car to the street."""
        pose = np.eye(4)
        pose[:3, :3], pose[0, 3] = about_z(np.asarray(self.sway * math.sin(time))), self.start + self.speed * time
        return pose


# ------------------------------------------------------------------------------------------------------------- LiDAR

BEAMS, AROUND = 20, 200  # vertical and horizontal number of rays
LOW, HIGH = -26.0, 4.0  # degrees of the lowest and the highest beam
FAR, SCAN_NOISE = 45.0, 0.02  # meters


def rays() -> np.ndarray:
    """Return unit directions (R, 3)."""
    up = np.deg2rad(np.linspace(LOW, HIGH, BEAMS))[:, None]
    turn = np.linspace(0, 2 * np.pi, AROUND, endpoint=False)[None]
    flat = np.cos(up) * np.ones_like(turn)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), np.sin(up) * np.ones_like(turn)], -1).reshape(-1, 3)


def scan(boxes: np.ndarray, height: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scan boxes with a sensor that is upright at `height` above the ground; boxes and points are in its frame.

    Return points (n, 5) float32 x, y, z, intensity, ring, and the box of each point (n,), -1 for the ground.
    """
    directions = rays()
    depth = np.where(directions[:, 2] < 0, -height / np.minimum(directions[:, 2], -1e-9), np.inf)
    hit = np.full(len(directions), -1)
    c, s = np.cos(boxes[:, 6]), np.sin(boxes[:, 6])
    for k, box in enumerate(boxes):
        turn = np.array([[c[k], s[k], 0], [-s[k], c[k], 0], [0, 0, 1]])  # to the frame of the box
        start, step, half = turn @ -box[:3], directions @ turn.T, box[[4, 3, 5]] / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            entry, exit_ = (-half - start) / step, (half - start) / step
        entry_max, exit_min = np.minimum(entry, exit_).max(1), np.maximum(entry, exit_).min(1)
        met = (entry_max <= exit_min) & (entry_max > 0) & (entry_max < depth)
        depth[met], hit[met] = entry_max[met], k
    in_range = depth < FAR * (1 - 0.1 * rng.random(len(depth)))
    places = directions[in_range] * (depth[in_range] + rng.normal(0, SCAN_NOISE, in_range.sum()))[:, None]
    ring = np.repeat(np.arange(BEAMS), AROUND)[in_range]
    intensity = rng.integers(0, 60, in_range.sum())  # carries no information
    return np.column_stack([places, intensity, ring]).astype(np.float32), hit[in_range]


# ----------------------------------------------------------------------------------------------------------- cameras

FACES = np.array([(0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (2, 3, 7, 6), (0, 3, 7, 4), (1, 2, 6, 5)])  # corner indices
SHADES = (1.0, 0.75, 1.1, 0.4, 0.85, 0.85)  # front, back, top, bottom, left, right
GROUND, SKY = np.array([70.0, 70, 75]), np.array([150.0, 180, 215])
PIXEL_NOISE = 8.0


def picture(
    boxes: np.ndarray, colors: np.ndarray, to_camera: np.ndarray, lens: np.ndarray, size: tuple[int, int],
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
    shades = np.clip(255 * colors[:, None] * np.array(SHADES)[:, None], 0, 255).astype(int).reshape(-1, 3).tolist()
    for i in np.argsort(-np.linalg.norm(faces.mean(1), axis=1), kind="stable"):
        if ahead[i].any():
            face = faces[i] if ahead[i].all() else _before(faces[i])
            flat = face @ lens.T
            pen.polygon((flat[:, :2] / flat[:, 2:]).ravel().tolist(), fill=tuple(shades[i]))
    pixels = np.asarray(image) + rng.normal(0, PIXEL_NOISE, (height, width, 1))
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
