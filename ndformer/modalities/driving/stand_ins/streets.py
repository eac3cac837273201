"""Generated streets: who stands and moves where. Shapes come in groups that look alike to a LiDAR; what of a group
something is, its colour tells."""

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
SIZES = ((1.9, 4.5, 1.6), (2.4, 7.5, 3.0), (0.8, 2.0, 1.1), (0.7, 0.7, 1.4))  # width, length, height; about
HUES = (0.0, 0.58, 0.16)  # red, blue, yellow: the first, second and third of a group
SPEEDS = (6.0, 5.0, 3.0, 1.2)  # metres a second, at most
STILL = ("traffic_cone", "barrier")
LANE = 3.4  # metres; the car has the middle one of five
LANES, EDGES = (-2 * LANE, -LANE, LANE, 2 * LANE), (10.0, 13.5)  # metres to the left of the middle of the street
ASKEW = 0.02  # radians at most, of who keeps to a lane: the widest lorry has room in it, as long as a drive lasts
WALLS = (15.0, 19.0)  # where houses begin
AHEAD, BEHIND = 30.0, 24.0  # metres of street, of where the car is in the midst of its drive
OBJECTS, HOUSES, TRIES = 18, 6, 400
STEP = 0.4  # seconds in which nobody drives through another one


@dataclass(frozen=True, eq=False)
class Street:
    """Boxes x, y, z, width, length, height, yaw, vx, vy at time 0, y to the left of the street; the first ones are
    objects, with a class each, and the others houses."""

    boxes: np.ndarray  # (K, 9)
    names: list[str]
    colours: np.ndarray  # (K, 3) 0..1
    attributes: list[str]

    def at(self, time: float) -> np.ndarray:
        """(K, 9) boxes so many seconds later."""
        moved = self.boxes.copy()
        moved[:, :2] += time * moved[:, 7:9]
        return moved


def street(rng: np.random.Generator, seconds: float) -> Street:
    """Nobody drives into another one meanwhile; the car drives along y = 0, between the lanes."""
    boxes: list[np.ndarray] = []
    names: list[str] = []
    times = np.linspace(0, seconds, 2 + int(seconds / STEP))
    for _ in range(TRIES):
        group = int(rng.choice(len(GROUPS), p=(0.3, 0.2, 0.25, 0.25)))
        name = GROUPS[group][rng.integers(len(GROUPS[group]))]
        box = _box(group, name, rng)
        near = np.array([later(box, t) for t in times])
        others = [np.array([later(one, t) for one in boxes]).reshape(-1, 9) for t in times]
        if not any(overlapping(grown(own[None]), some).any() for own, some in zip(near, others)):
            boxes.append(box)
            names.append(name)
        if len(boxes) == OBJECTS:
            break
    walls = [_house(side, plot, rng) for side in (-1, 1) for plot in range(HOUSES // 2)]
    colours = [_paint(name, rng) for name in names] + [np.full(3, rng.uniform(0.4, 0.7)) for _ in walls]
    return Street(np.array(boxes + walls), names, np.array(colours), [_attribute(*one) for one in zip(names, boxes)])


def later(box: np.ndarray, time: float) -> np.ndarray:
    return np.concatenate([box[:2] + time * box[7:9], box[2:]])


def grown(boxes: np.ndarray) -> np.ndarray:
    """With half a metre of room around them."""
    return np.concatenate([boxes[:, :3], boxes[:, 3:5] + 1.0, boxes[:, 5:]], 1)


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
    """On its own piece of a side of the street."""
    deep, long, high = rng.uniform(4, 8), rng.uniform(6, 16), rng.uniform(4, 9)
    ends = np.linspace(-BEHIND - 10, AHEAD + 10, HOUSES // 2 + 1)[plot : plot + 2]
    along = rng.uniform(ends[0] + long / 2, ends[1] - long / 2)
    place = along, side * (rng.uniform(*WALLS) + deep / 2), high / 2
    return np.array([*place, deep, long, high, 0, 0, 0])


def _paint(name: str, rng: np.random.Generator) -> np.ndarray:
    """By the place of a class in its group."""
    place = next(group.index(name) for group in GROUPS if name in group)
    return np.array(
        colorsys.hsv_to_rgb((HUES[place] + rng.normal(0, 0.02)) % 1, rng.uniform(0.6, 1), rng.uniform(0.6, 1))
    )


def _attribute(name: str, box: np.ndarray) -> str:
    fast = np.hypot(*box[7:9]) > FAST
    if name in STILL:
        return ""
    if name == "pedestrian":
        return "pedestrian.moving" if fast else "pedestrian.standing"
    if name in ("motorcycle", "bicycle"):
        return "cycle.with_rider" if fast else "cycle.without_rider"
    return "vehicle.moving" if fast else "vehicle.parked"
