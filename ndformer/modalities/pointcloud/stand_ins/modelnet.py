"""The stand-ins of ModelNet40 in each of its layouts on disk: objects put together at random, of those in shapes/."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.stand_ins.baselines import baselines
from ndformer.modalities.pointcloud.stand_ins.shapes import home, things
from ndformer.modalities.pointcloud.stand_ins.shapes.home import Dice
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import Mesh, box, join, scatter, unit_sphere, write_off

MAKERS = [things.airplane, home.bed, things.bottle, things.car, home.chair, things.cup, things.guitar, things.lamp]
MAKERS += [home.night_stand, home.sofa, things.stairs, home.table]
CLASSES: dict[str, Callable[[Dice], Mesh]] = {maker.__name__: maker for maker in MAKERS}
TRAIN, TEST, POINTS = 80, 20, 768  # a class, a class, a cloud

# How far an object departs from its class's proportions. Extents and moments told the class of 77 % before there was
# WARP, STAND and WALL, and tell that of 54 % with them; a small transformer of 92 % before and 87 % with them.
STRETCH, FREEDOM = 0.6, 0.7  # of the logarithm of each side; how much of the sides is not the class's own
WARP, TAPER, LEAN = 0.25, 0.3, 0.2  # in half sides
STAND, WALL = 0.4, 0.25  # shares of objects


def disguise(mesh: Mesh, dice: Dice) -> Mesh:
    """Proportions that owe little to the class, and sometimes a stand, a wall or rails that owe nothing to it.

    Extents and moments would tell a bed from a bottle. What is left to tell them is what they are made of.
    """
    low, high = mesh.vertices.min(0), mesh.vertices.max(0)
    extent = high - low
    inside = (mesh.vertices - (low + high) / 2) / extent * 2  # (V, 3) in -1..1
    inside += np.array([dice(-WARP, WARP) for _ in range(3)]) * (1 - inside**2)  # what was in the middle no longer is
    inside[:, [0, 2]] *= 1 - dice(-TAPER, TAPER) * inside[:, 1:2]
    inside[:, [0, 2]] += np.array([dice(-LEAN, LEAN), dice(-LEAN, LEAN)]) * inside[:, 1:2]
    natural = np.log(extent / np.exp(np.log(extent).mean()))
    free = np.array([dice(-STRETCH, STRETCH) for _ in range(3)])
    x, y, z = np.exp((1 - FREEDOM) * natural + FREEDOM * free)
    return join([Mesh(inside, mesh.faces), *surroundings(dice)]).scaled(x, y, z)


def surroundings(dice: Dice) -> list[Mesh]:
    """A block below and a board beside an object that fills -1..1, each or neither."""
    parts = []
    if dice.coin(STAND):
        tall = dice(0.05, 1.2)
        block = box(dice(1.4, 2.6), tall, dice(1.4, 2.6), (dice(0.7, 1), dice(0.7, 1)))
        parts.append(block.moved(dice(-0.2, 0.2), -1 - tall, dice(-0.2, 0.2)))
    if dice.coin(WALL):
        wall = box(dice(1.0, 2.6), dice(0.8, 2.6), dice(0.03, 0.12))
        parts.append(wall.moved(dice(-0.5, 0.5), dice(-1, -0.5), -1.1).turned("y", dice.count(0, 3) / 4))
    return parts


def build(name: str, rng: np.random.Generator) -> Mesh:
    """A new object of a class in the unit sphere, upright, looking along one of the four ways or nearly so."""
    dice = Dice(rng)
    mesh = disguise(CLASSES[name](dice), dice).turned("y", dice.count(0, 3) / 4 + dice(-0.03, 0.03))
    centre, radius = unit_sphere(scatter(mesh, 1024, rng)[:, :3])
    return Mesh((mesh.vertices - centre) / radius, mesh.faces)


def cloud(mesh: Mesh, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 6) points with normals, their centroid at the origin and the furthest at 1."""
    points = scatter(mesh, count, rng)
    centre, radius = unit_sphere(points[:, :3])
    points[:, :3] = (points[:, :3] - centre) / radius
    return points


def write_cloud(path: Path, points: np.ndarray) -> None:
    """Lines of x,y,z,nx,ny,nz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = "%.4f,%.4f,%.4f,%.3f,%.3f,%.3f\n"
    path.write_text(line * len(points) % tuple(points.ravel().tolist()))


class Object(NamedTuple):
    split: str
    kind: str
    name: str  # table_0001
    mesh: Mesh
    rng: np.random.Generator  # to go on with


def objects(seed: int, train: int, test: int) -> Iterator[Object]:
    """All of a seed, class by class; each has randomness of its own."""
    for label, kind in enumerate(CLASSES):
        for i in range(train + test):
            rng = np.random.default_rng((seed, label, i))
            yield Object("train" if i < train else "test", kind, f"{kind}_{i + 1:04d}", build(kind, rng), rng)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


@stand_in(dict(type="ModelNet40"), baselines)
def modelnet40(folder: Path, seed: int = 0, train: int = TRAIN, test: int = TEST, points: int = POINTS) -> None:
    """960 + 240 clouds of twelve classes, as modelnet40_normal_resampled has them."""
    names: dict[str, list[str]] = dict(train=[], test=[])
    for split, kind, name, mesh, rng in objects(seed, train, test):
        write_cloud(folder / kind / f"{name}.txt", cloud(mesh, points, rng))
        names[split].append(name)
    for split, listed in names.items():
        write_lines(folder / f"modelnet40_{split}.txt", listed)
    write_lines(folder / "modelnet40_shape_names.txt", CLASSES)


@stand_in(dict(type="ModelNet40"), baselines)
def modelnet40_off(folder: Path, seed: int = 0, train: int = TRAIN, test: int = TEST) -> None:
    """The same objects as meshes, as ModelNet40.zip has them."""
    for split, kind, name, mesh, _ in objects(seed, train, test):
        write_off(folder / kind / split / f"{name}.off", mesh.vertices, mesh.faces)


@stand_in(dict(type="ModelNet40"), baselines)
def modelnet40_hdf5(folder: Path, seed: int = 0, train: int = TRAIN, test: int = TEST, points: int = POINTS) -> None:
    """The same clouds, to the point, as modelnet40_ply_hdf5_2048 has them. Needs h5py."""
    try:
        import h5py
    except ImportError:
        raise DataError("modelnet40_hdf5: writing needs h5py: pip install 'ndformer[hdf5]'") from None
    found: dict[str, list[tuple[np.ndarray, int]]] = dict(train=[], test=[])
    for split, kind, _, mesh, rng in objects(seed, train, test):
        found[split].append((cloud(mesh, points, rng), list(CLASSES).index(kind)))
    for split, some in found.items():
        values = np.stack([points for points, _ in some]).astype(np.float32)  # (N, n, 6)
        with h5py.File(folder / f"ply_data_{split}0.h5", "w") as file:
            file["data"], file["normal"] = values[..., :3], values[..., 3:]
            file["label"] = np.array([[label] for _, label in some], np.uint8)
        write_lines(folder / f"{split}_files.txt", [f"data/modelnet40_ply_hdf5_2048/ply_data_{split}0.h5"])
    write_lines(folder / "shape_names.txt", CLASSES)
