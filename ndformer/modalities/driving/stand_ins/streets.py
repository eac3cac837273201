"""Generated streets with objects and houses.

Classes come in groups of the same shape, which a LiDAR cannot distinguish; the color tells the class within a group.
"""

import colorsys
from dataclasses import dataclass

import numpy as np

from ndformer.modalities.driving.formats.classes import FAST
from ndformer.modalities.driving.formats.solids import overlapping

GROUPS = (  # classes that share a shape
    ("car", "construction_vehicle"),
    ("truck", "bus", "trailer"),
    ("motorcycle", "bicycle", "barrier"),
    ("pedestrian", "traffic_cone"),
)
SIZES = ((1.9, 4.5, 1.6), (2.4, 7.5, 3.0), (0.8, 2.0, 1.1), (0.7, 0.7, 1.4))  # mean width, length, height
HUES = (0.0, 0.58, 0.16)  # red, blue, yellow for the first, second and third class of a group
SPEEDS = (6.0, 5.0, 3.0, 1.2)  # maximum, in meters per second
STILL = ("traffic_cone", "barrier")
LANE = 3.4  # width in meters; the car is in the middle one of five
LANES, EDGES = (-2 * LANE, -LANE, LANE, 2 * LANE), (10.0, 13.5)  # meters to the left of the middle of the street
ASKEW = 0.02  # maximum angle to a lane in radians, at which the widest lorry stays in its lane during a drive
WALLS = (15.0, 19.0)  # distance of houses in meters
AHEAD, BEHIND = 30.0, 24.0  # meters of street around the middle of the car's drive
OBJECTS, HOUSES, TRIES = 18, 6, 400
STEP = 0.4  # seconds between collision checks
MARGIN = np.array([0, 0, 0, 1.0, 1.0, 0, 0, 0, 0])  # half a meter to each side


@dataclass(frozen=True, eq=False)
class Street:
    """Boxes x, y, z, width, length, height, yaw, vx, vy at time 0, with y to the left: objects, then houses."""

    boxes: np.ndarray  # (K, 9)
    names: list[str]
    colors: np.ndarray  # (K, 3) 0..1
    attributes: list[str]

    def moved_boxes(self, time: float) -> np.ndarray:
        """Return the boxes (K, 9) after `time` seconds."""
        return later(self.boxes, time)


def street(rng: np.random.Generator, seconds: float) -> Street:
    """Generate a street without collisions during `seconds`; the car drives along y = 0, between the lanes."""
    boxes: list[np.ndarray] = []
    names: list[str] = []
    times = np.linspace(0, seconds, 2 + int(seconds / STEP))
    for _ in range(TRIES):
        group = int(rng.choice(len(GROUPS), p=(0.3, 0.2, 0.25, 0.25)))
        name = GROUPS[group][rng.integers(len(GROUPS[group]))]
        box = _box(group, name, rng)
        earlier_boxes = np.array(boxes).reshape(-1, 9)
        if not any(overlapping(later(box[None] + MARGIN, t), later(earlier_boxes, t)).any() for t in times):
            boxes.append(box)
            names.append(name)
        if len(boxes) == OBJECTS:
            break
    walls = [_house(side, plot, rng) for side in (-1, 1) for plot in range(HOUSES // 2)]
    colors = [_paint(name, rng) for name in names] + [np.full(3, rng.uniform(0.4, 0.7)) for _ in walls]
    attributes = [_attribute(name, box) for name, box in zip(names, boxes)]
    return Street(np.array(boxes + walls), names, np.array(colors), attributes)


def later(boxes: np.ndarray, time: float) -> np.ndarray:
    boxes = boxes.copy()
    boxes[:, :2] += time * boxes[:, 7:9]
    return boxes


def _box(group: int, name: str, rng: np.random.Generator) -> np.ndarray:
    size = np.array(SIZES[group]) * rng.uniform(0.85, 1.2, 3)
    moves = name not in STILL and rng.random() < 0.5
    speed = SPEEDS[group] * rng.uniform(0.4, 1) * moves
    if group < 2:
        lane = rng.choice(LANES)
        yaw = (0.0 if lane < 0 else np.pi) + rng.uniform(-ASKEW, ASKEW)
    else:
        lane = rng.choice((-1, 1)) * rng.uniform(*EDGES)
        yaw = rng.uniform(-np.pi, np.pi) if not moves else rng.choice((0, np.pi)) + rng.normal(0, 0.05)
    along = rng.uniform(-BEHIND, AHEAD)
    velocity = speed * np.array([np.cos(yaw), np.sin(yaw)])
    return np.array([along, lane, size[2] / 2, *size, yaw, *velocity])


def _house(side: int, plot: int, rng: np.random.Generator) -> np.ndarray:
    """Return a house on its own plot at a side of the street."""
    deep, long, high = rng.uniform(4, 8), rng.uniform(6, 16), rng.uniform(4, 9)
    ends = np.linspace(-BEHIND - 10, AHEAD + 10, HOUSES // 2 + 1)[plot : plot + 2]
    along = rng.uniform(ends[0] + long / 2, ends[1] - long / 2)
    place = along, side * (rng.uniform(*WALLS) + deep / 2), high / 2
    return np.array([*place, deep, long, high, 0, 0, 0])


def _paint(name: str, rng: np.random.Generator) -> np.ndarray:
    """Return a random color around the hue of a class's place in its group."""
    place = next(group.index(name) for group in GROUPS if name in group)
    hue = (HUES[place] + rng.normal(0, 0.02)) % 1
    return np.array(colorsys.hsv_to_rgb(hue, rng.uniform(0.6, 1), rng.uniform(0.6, 1)))


def _attribute(name: str, box: np.ndarray) -> str:
    fast = np.hypot(*box[7:9]) > FAST
    if name in STILL:
        return ""
    if name == "pedestrian":
        return "pedestrian.moving" if fast else "pedestrian.standing"
    if name in ("motorcycle", "bicycle"):
        return "cycle.with_rider" if fast else "cycle.without_rider"
    return "vehicle.moving" if fast else "vehicle.parked"
