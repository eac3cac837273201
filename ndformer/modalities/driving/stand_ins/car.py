"""Simulated car: its sensors and its motion. In the car's frame, x is ahead, y to the left, z up."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.formats.poses import about_z, poses, quaternion

HEIGHT, WIDTH = 96, 160  # pixels of a camera
ROOF, HOOD = 1.84, 1.5  # height of the LiDAR and of the cameras above the ground, in metres
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
