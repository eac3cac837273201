"""Stand-in of `paired`: objects with an image and a point cloud, which are classified only by both together.

A class is a shape and a finish, such as tumbler_banded. Shapes come in pairs that differ only where the image does not
show it: behind or below. The finish is in the image alone. So an image leaves two candidate classes, a cloud leaves two
others, and both together leave one.
"""

import colorsys
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.pointcloud.pictures.render import Paint, render
from ndformer.modalities.pointcloud.stand_ins.baselines import baselines
from ndformer.modalities.pointcloud.stand_ins.modelnet import write_cloud, write_lines
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import Mesh, arc, box, cylinder, join, scatter, tube, vessel

TRAIN, TEST, POINTS, SIZE = 60, 20, 512, 48  # a class, a class, a cloud, pixels along a view


def beaker(rng: np.random.Generator) -> tuple[Mesh, Mesh]:
    """Return a tumbler, and the handle behind it that makes it a mug."""
    low, high, tall = rng.uniform(0.3, 0.42), rng.uniform(0.36, 0.48), rng.uniform(0.75, 1.2)
    size, depth = rng.uniform(0.2, 0.28) * tall, rng.uniform(0.22, 0.34)
    loop = arc(1, -0.25, 0.25) * np.array([depth, size]) + np.array([(low + high) / 2 * 0.95, tall * 0.45])
    ear = tube(np.insert(loop, 2, 0, axis=1), rng.uniform(0.06, 0.08)).turned("y", 0.25)  # from x to -z
    return vessel([(low, 0), (high, tall)], 0.04, sides=24), ear


def case(rng: np.random.Generator) -> tuple[Mesh, Mesh]:
    """Return a bookcase with its open side away from the viewer, and the back panel that makes it a cabinet."""
    x, y, z, wall = rng.uniform(0.6, 1.0), rng.uniform(0.8, 1.3), rng.uniform(0.4, 0.6), 0.04
    shelves = rng.integers(2, 4)
    sides = [box(wall, y, z).moved(sign * (x - wall) / 2) for sign in (-1, 1)]
    boards = [box(x, wall, z).moved(y=(y - wall) * i / shelves) for i in range(shelves + 1)]
    front, back = (box(x, y, wall).moved(z=sign * (z - wall) / 2) for sign in (1, -1))
    return join([*sides, *boards, front]), back.scaled(0.98, 0.98, 1).moved(y=0.01 * y)


def hood(rng: np.random.Generator) -> tuple[Mesh, Mesh]:
    """Return a bell that is hollow from below, and the floor that makes it a dome."""
    wide, tall, knob = rng.uniform(0.45, 0.65), rng.uniform(0.5, 0.9), rng.uniform(0.06, 0.12)
    turn = np.linspace(0, 0.22, 7) * 2 * math.pi
    outline = np.column_stack([wide * np.cos(turn), tall * np.sin(turn)])
    bell = vessel(np.column_stack([outline[::-1, 0], tall - outline[::-1, 1]]), 0.04, sides=24)
    bell = bell.turned("x", 0.5).moved(y=tall)
    return join([bell, cylinder(knob, 0.15, 1.3).moved(y=tall * 0.97)]), cylinder(wide * 0.95, 0.03, sides=24)


SHAPES: dict[tuple[str, str], Callable[[np.random.Generator], tuple[Mesh, Mesh]]] = {
    ("tumbler", "mug"): beaker,
    ("bookcase", "cabinet"): case,
    ("bell", "dome"): hood,
}
FINISHES = ("banded", "streaked")
CLASSES = [f"{shape}_{finish}" for both in SHAPES for shape in both for finish in FINISHES]


def finish(kind: str, rng: np.random.Generator) -> Paint:
    """Return a paint of horizontal or vertical stripes in two random colors."""
    hue = rng.uniform(0, 1)
    dark, bright = (
        np.array(colorsys.hsv_to_rgb(hue + rng.uniform(-0.1, 0.1), rng.uniform(0.2, 0.8), value))
        for value in (rng.uniform(0.25, 0.45), rng.uniform(0.85, 1))
    )
    across, around, phase = rng.uniform(2.5, 4), rng.integers(5, 9), rng.uniform(0, 1)

    def paint(places: np.ndarray) -> np.ndarray:
        x, y, z = places.T
        stripe = y * across if kind == "banded" else np.arctan2(x, z) / (2 * math.pi) * 2 * around
        return np.where(((stripe + phase) % 1 < 0.5)[:, None], dark, bright)

    return paint


def pair(kind: str, rng: np.random.Generator) -> tuple[Mesh, Paint, float, float]:
    """Generate an object facing the z axis, its finish, and the azimuth and elevation of its image."""
    shape, _, coat = kind.rpartition("_")
    both = next(both for both in SHAPES if shape in both)
    plain, hidden = SHAPES[both](rng)
    # place and scale it with the hidden part, present or not, so that the image does not reveal it
    vertices = join([plain, hidden]).vertices
    middle = (vertices.min(0) + vertices.max(0)) / 2
    scale = rng.uniform(0.8, 0.95) / np.linalg.norm(vertices - middle, axis=1).max()
    mesh = join([plain, hidden]) if shape == both[1] else plain
    mesh = Mesh((mesh.vertices - middle) * scale, mesh.faces)
    return mesh, finish(coat, rng), rng.uniform(-15, 15), rng.uniform(8, 20)


@stand_in(dict(type="Paired"), baselines)
def paired(folder: Path, seed: int = 0, train: int = TRAIN, test: int = TEST, points: int = POINTS) -> None:
    """Write 720 + 240 objects of twelve classes, an image of 48 x 48 pixels and a cloud of each."""
    names: dict[str, list[str]] = dict(train=[], test=[])
    views = ["name,azimuth,elevation"]
    for label, kind in enumerate(CLASSES):
        for i in range(train + test):
            rng = np.random.default_rng((seed, label, i))
            name = f"{kind}/{i + 1:04d}"
            mesh, paint, azimuth, elevation = pair(kind, rng)
            turn = rng.uniform(0, 1)  # of object and viewer together, so the orientation carries no information
            write_cloud(folder / f"{name}.txt", scatter(mesh.turned("y", turn), points, rng))
            view = render(mesh.vertices, mesh.faces, SIZE, azimuth, elevation, paint)
            Image.fromarray(view).save(folder / f"{name}.png")
            views.append(f"{name},{(azimuth + 360 * turn) % 360:.2f},{elevation:.2f}")
            names["train" if i < train else "test"].append(name)
    for split, listed in names.items():
        write_lines(folder / f"{split}.txt", listed)
    write_lines(folder / "views.csv", views)
    write_lines(folder / "classes.txt", CLASSES)
