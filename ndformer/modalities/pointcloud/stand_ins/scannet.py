"""Stand-in of ScanNet: furnished rooms in Pointcept's layout, with all 20 classes, z up, in meters.

Rooms lack some of their walls, as scans do. Colors carry little information: most objects share the same materials.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET
from ndformer.modalities.pointcloud.stand_ins.baselines import baselines
from ndformer.modalities.pointcloud.stand_ins.shapes.kinds import build
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import Mesh, box, scatter

TRAIN, VAL = 60, 18  # rooms
DENSITY = 110  # points per square meter; walls and floors have WALLS times as many
WALLS = 0.6
TRIES = 20  # random places for an object before it is left out
CLASSES = list(SCANNET)

FREE = ("table", "chair", "otherfurniture", "shower curtain")  # may stand anywhere; all others at a wall

ALWAYS = ("door", "window", "picture")
ROOMS: dict[str, tuple[str, ...]] = dict(
    living=("sofa", "sofa", "table", "chair", "chair", "bookshelf", "cabinet", "curtain", "otherfurniture", "picture"),
    sleeping=("bed", "cabinet", "desk", "chair", "curtain", "otherfurniture", "bookshelf"),
    kitchen=("counter", "refrigerator", "table", "chair", "chair", "cabinet"),
    bath=("bathtub", "shower curtain", "toilet", "sink", "cabinet"),
    study=("desk", "desk", "chair", "chair", "bookshelf", "bookshelf", "cabinet", "sofa", "otherfurniture"),
    studio=("bed", "counter", "refrigerator", "sofa", "table", "chair", "curtain", "toilet", "sink"),
)

PAINTS = np.array([(214, 206, 190), (190, 196, 200), (222, 222, 218), (176, 160, 138), (160, 176, 160)], float)
STUFFS = np.array(
    [(120, 82, 48), (166, 124, 82), (84, 60, 44), (200, 176, 140), (230, 230, 226), (150, 150, 154), (70, 72, 78),
     (96, 112, 140), (140, 70, 64), (90, 116, 84), (206, 196, 178), (178, 140, 60)], float
)  # fmt: skip
WHITE = ("toilet", "sink", "bathtub", "refrigerator", "door", "window")  # mostly white


@dataclass
class Room:
    """A room with the objects placed in it: y is up, walls along x and z."""

    x: float
    z: float
    boxes: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    objects: list[tuple[str, Mesh]] = field(default_factory=list)

    def place(self, kind: str, mesh: Mesh, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
        """Place an object at a random free position and return its bounds, or None where none was found."""
        for _ in range(TRIES):
            side = int(rng.integers(4))
            free = kind in FREE
            turned = mesh.turned("y", rng.uniform(0, 1) if free and kind != "shower curtain" else side / 4)
            low, high = turned.vertices.min(0), turned.vertices.max(0)
            size = high - low
            if size[0] > self.x or size[2] > self.z:
                continue
            x, z = rng.uniform(0, self.x - size[0]), rng.uniform(0, self.z - size[2])
            if not free:  # with its back to the wall
                x = {1: 0.02, 3: self.x - size[0] - 0.02}.get(side, x)
                z = {0: 0.02, 2: self.z - size[2] - 0.02}.get(side, z)
            placed = turned.moved(x - low[0], 0, z - low[2])
            bounds = placed.vertices.min(0) - 0.03, placed.vertices.max(0) + 0.03
            if all((bounds[0] > b).any() or (bounds[1] < a).any() for a, b in self.boxes):
                self.boxes.append(bounds)
                self.objects.append((kind, placed))
                return bounds
        return None


def furnished(rng: np.random.Generator, kind: str) -> Room:
    """Generate a room of a kind with random furniture."""
    scale = 0.75 if kind == "bath" else 1.0
    room = Room(rng.uniform(3.0, 4.8) * scale, rng.uniform(3.0, 4.8) * scale)
    for name in [*ALWAYS, *(name for name in ROOMS[kind] if rng.random() < 0.9)]:
        shape = "lamp" if name == "otherfurniture" else name.replace(" ", "_")
        bounds = room.place(name, build(shape, rng), rng)
        if name == "counter" and bounds is not None and rng.random() < 0.8:  # with a basin
            low, high = bounds
            x, _, z = low + (high - low) * rng.uniform((0.3, 0, 0.4), (0.7, 0, 0.6))
            room.objects.append(("sink", build("basin", rng).moved(x, 0.88, z)))
    return room


def floor_and_walls(room: Room, rng: np.random.Generator) -> list[tuple[str, Mesh]]:
    """Return the floor and two or three walls; objects at the missing walls stay, as in incomplete scans."""
    tall, thick = rng.uniform(2.2, 2.7), 0.02
    along, across = box(room.x, tall, thick), box(thick, tall, room.z)
    walls = [along.moved(room.x / 2, 0, -thick), across.moved(-thick, 0, room.z / 2)]
    walls += [along.moved(room.x / 2, 0, room.z + thick), across.moved(room.x + thick, 0, room.z / 2)]
    present = rng.permutation(4)[: rng.integers(2, 4)]
    floor = box(room.x, thick, room.z).moved(room.x / 2, -thick, room.z / 2)
    return [("floor", floor), *(("wall", walls[i]) for i in present)]


def pick_color(kind: str, rng: np.random.Generator) -> np.ndarray:
    if kind == "wall":
        base = PAINTS[rng.integers(len(PAINTS))]
    elif kind in WHITE and rng.random() < 0.6:
        base = np.array([228.0, 228.0, 224.0])
    else:
        base = STUFFS[rng.integers(len(STUFFS))]
    return base * rng.uniform(0.8, 1.1)


def scan(seed: int, number: int) -> dict[str, np.ndarray]:
    """Return the points of a room as the arrays of its folder. Six rooms in a row have one of each kind."""
    rng = np.random.default_rng((seed, number))
    turn, place = divmod(number, len(ROOMS))
    kinds = np.random.default_rng((seed, turn)).permutation(len(ROOMS))
    room = furnished(rng, list(ROOMS)[kinds[place]])
    openings = [(m.vertices.min(0), m.vertices.max(0)) for kind, m in room.objects if kind in ("door", "window")]
    rows, light = [], np.array([0.3, 0.9, 0.3])
    for instance, (kind, mesh) in enumerate([*floor_and_walls(room, rng), *room.objects]):
        corners = mesh.vertices[mesh.faces]
        area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2
        share = WALLS / 2 if kind in ("wall", "floor") else 1.0  # the area counts both sides of a thin box
        cloud = scatter(mesh, max(12, int(area * DENSITY * share)), rng)  # (n, 6)
        if kind == "wall":  # which has holes behind doors and windows
            inside = [((cloud[:, :3] > a - 0.13) & (cloud[:, :3] < b + 0.13)).all(1) for a, b in openings]
            cloud = cloud[~np.any(inside, axis=0)] if inside else cloud
        shade = 0.75 + 0.25 * (cloud[:, 3:] @ light).clip(0, 1)[:, None]
        colors = pick_color(kind, rng) * shade + rng.normal(0, 8, (len(cloud), 3))
        label = np.full((len(cloud), 1), CLASSES.index(kind))
        rows.append(np.concatenate([cloud, colors, label, np.full_like(label, instance)], 1))
    table = np.concatenate(rows)
    table = table[rng.permutation(len(table))]
    table[:, :3] += rng.normal(0, 0.004, (len(table), 3))
    table[rng.random(len(table)) < 0.03, 9] = -1  # unlabeled, as some points of ScanNet are
    to_up = [2, 0, 1]  # y up -> z up
    return dict(
        coord=table[:, to_up].astype(np.float32),
        normal=table[:, [5, 3, 4]].astype(np.float32),
        color=table[:, 6:9].clip(0, 255).astype(np.uint8),
        segment20=table[:, 9].astype(np.int64),
        instance=table[:, 10].astype(np.int64),
    )


@stand_in(dict(type="ScanNet"), baselines)
def scannet(folder: Path, seed: int = 0, train: int = TRAIN, val: int = VAL) -> None:
    """Write 60 + 18 rooms of about 8,000 points."""
    for i in range(train + val):
        place = folder / ("train" if i < train else "val") / f"scene{i:04d}_00"
        place.mkdir(parents=True)
        for name, values in scan(seed, i).items():
            np.save(place / f"{name}.npy", values)
