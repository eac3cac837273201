"""A table of the parts of objects, and a function that builds a random object of a kind from it.

The table is in tenths: x and z run from -10 to 10, y from 0 (the floor) to 20; the front faces z. A part is a solid of
SOLIDS, its bounds x0 x1 y0 y1 z0 z1, and any number of copies: "x" and "z" add a mirror image, "3-6 dx dy dz turns"
makes 3 to 6 parts, the last of them moved by dx dy dz and turned about the y axis.
"""

import functools
from typing import NamedTuple

import numpy as np

from ndformer.modalities.pointcloud.stand_ins.shapes import solids
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import Mesh, both, box, cylinder, join, vessel

BEND = 0.3  # log of the exponents that move the bounds of all parts of an object alike

_FIN = box(2, 2, 2, top=(0.5, 0.5), lean=(0, -1))
SOLIDS = {
    "box": box(1, 1, 1),
    "wedge": box(1, 1, 1, top=(0.75, 0.6)),
    "ramp": box(2, 2, 0.4, lean=(0, -1.6)),
    "fin": _FIN,
    "wing": _FIN.turned("z", -0.25),  # a fin along x
    "drum": cylinder(1, 1),
    "roll": cylinder(1, 1).turned("z", 0.25),  # a drum along x
    "barrel": cylinder(1, 1).turned("x", 0.25),  # a drum along z
    "cone": cylinder(1, 1, 0.4),
    "nose": cylinder(1, 1, 0.4).turned("x", 0.25),  # a cone along z
    "ball": solids.ball(1, 1, 1),
    "cup": vessel([(0.75, -1), (1, 0), (0.95, 1)], 0.12),
    "hood": vessel([(0.5, -1), (1, 1)], 0.06).turned("x", 0.5),
    "loop": solids.tube(np.insert(solids.arc(1, -0.25, 0.25), 2, 0, axis=1), 0.12),  # a handle that bulges along x
}


class Kind(NamedTuple):
    """A kind of object: an object has one of the alternatives of each group of parts."""

    sizes: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]  # ranges of x, y, z in meters
    groups: list[tuple[str, ...]]
    base: tuple[float, float] = (0, 0)  # range of the height above the floor, in meters


def legs(y: float) -> tuple[str, ...]:
    """Return alternative parts that carry a board at height y."""
    return (
        f"box 8 10 0 {y} 8 10 x z",
        f"drum 8 10 0 {y} 8 10 x z",
        f"box 8 9.5 0 {y} 8 9.5 x z; box -9 9 {y / 3} {y / 3 + 0.7} 8.2 9.2 z",
        f"drum -1.3 1.3 0 {y} -1.3 1.3; cone -6 6 0 1 -6 6",
        f"box 8 9.5 0 {y} -10 10 x",
        f"box 7 9 0 {y} -1.5 1.5 x; box 7 9 0 1 -10 10 x",
    )


_FRAME = "box 9 10 0 20 -10 10 x; box -9 9 0 1.5 -10 10; box -9 9 18.5 20 -10 10"
_DOORS = "box -9.5 -5 1 18 9 10.5 2-4 14.5 0 0 0; box -6 -5.5 9 12 10.5 11.5 2-4 14.5 0 0 0"
_CANOPY = "box 9.5 10.5 0 20 9.5 10.5 x z; box 9.5 10.5 19 20 -10 10 x; box -10 10 19 20 9.5 10.5 z"
_SHELVES = "box 9 10 0 20 -10 10 x; box -10 10 0 20 -10 -9; box -9 9 0 0.6 -10 10 4-7 0 19.4 0 0"

# fmt: off
KINDS = {
    "airplane": Kind(((1.2, 2.0), (0.4, 0.7), (1.2, 1.9)), [
        ("ball -1.5 1.5 6 10 -10 10", "barrel -1.2 1.2 6.5 9.5 -10 7; nose -1.2 1.2 6.5 9.5 7 10"),
        ("wing 1 10 7 8 -4 4 x", "wing 1 10 9 9.7 -3 3 x", "wing 1 10 6 6.7 -7 3 x", "box 1 9 9 9.7 -1 2 x"),
        ("fin -0.3 0.3 9 19 -10 -6; wing 0.5 4 9 9.7 -10 -7 x", "fin -0.3 0.3 9 17 -10 -6; wing 0 4 16 17 -10 -7 x"),
        ("barrel 3.5 4.7 5 7 -2 3 x", "barrel 3 4 5 7 -1 3 2 3.5 0 -2 0 x", "barrel 1.5 2.7 8 10 -8 -4 x", ""),
        ("", "", "box -0.4 0.4 3 13 9.6 10", "roll 2 3 0 4 -2 1 x; roll -0.5 0.5 0 4 6 8; box 2.3 2.7 2 7 -1 0 x"),
    ]),
    "bathtub": Kind(((1.5, 1.8), (0.5, 0.65), (0.68, 0.8)), [
        ("box 9.2 10 0 18 -10 10 x; box -10 10 0 18 8.5 10 z; box -10 10 0 4 -10 10; box 7 8.5 18 20 -2 2",),
    ]),
    "bed": Kind(((0.9, 1.6), (0.7, 1.3), (1.6, 2.0)), [
        ("box -10 10 5 9 -10 10",),
        ("box 8.5 10 0 5 8.5 10 x z", "box -9.5 9.5 0 5 -9.5 9.5", "drum 8 9.5 0 5 8 9.5 x z; box -10 10 4 5 -10 10"),
        ("ball -7 7 9 11 -9 -6", "ball -9 -1 9 11 -9 -6 x", "box 1 9 9 10.5 -9 -6 x", "wedge -7 7 9 11 -9 -6"),
        ("box -10 10 0 18 -10.7 -10", "wedge -10 10 0 16 -10.7 -10", "box -9.5 -8.5 0 17 -10.7 -10 4-7 18 0 0 0",
         f"{_CANOPY}; box -10 10 9 15 -10.7 -10", f"{_CANOPY}; box -10 10 14 17 -10 10; ball -7 7 17 18.5 -9 -6"),
        ("", "", "box -10 10 0 11 10 10.7", "box -10.3 10.3 8.5 9.6 -3 10.2", "box -10 10 0 7 10 10.7"),
    ]),
    "bookshelf": Kind(((0.6, 1.4), (1.2, 2.1), (0.25, 0.35)), [
        (_SHELVES,),
        ("box -8.5 -7.5 0.6 3.4 -8 6 5-9 16 0 0 0 3-4 0 14 0 0", "box -8.5 -6 0.6 4 -8 7 3-5 13 0 0 0 4-5 0 15 0 0"),
    ]),
    "bottle": Kind(((0.3, 0.8), (1.0, 1.9), (0.3, 0.8)), [
        ("drum -10 10 0 11 -10 10", "box -10 10 0 11 -10 10", "ball -10 10 0 12 -10 10", "cone -10 10 0 13 -10 10"),
        ("cone -9 9 10.5 14 -9 9", "ball -9 9 8 13.5 -9 9", ""),
        ("drum -3 3 10 19 -3 3", "drum -2 2 10 19 -2 2", "cone -4 4 10 19 -4 4"),
        ("drum -4 4 18 20 -4 4", "drum -3 3 19 20 -3 3", "box -3 3 18.5 20 -3 9", "ball -3.5 3.5 17.5 20 -3.5 3.5"),
        ("", "", "loop 2 7 11 18 -1 1"),
    ]),
    "cabinet": Kind(((0.6, 1.5), (0.7, 1.3), (0.35, 0.6)), [(f"box -10 10 0 20 -10 9; {_DOORS}",)]),
    "car": Kind(((0.6, 0.9), (0.5, 0.9), (1.3, 2.0)), [
        ("box -9.5 9.5 3 10 -10 10", "wedge -9.5 9.5 3 10 -10 10", "box -9.5 9.5 4 8 -10 10; box -9 9 8 10 -9 2"),
        ("wedge -9 9 10 18 -7 5", "box -9 9 10 20 -10 6", "wedge -9 9 10 19 -1 6; box 8.5 9.5 10 12.5 -10 -1 x",
         "wedge -9 9 10 18 3 9; box -9.8 9.8 10 20 -10 2", "wedge 2 8 10 15 -4 -1 x; ramp -8 8 10 15 2 4"),
        ("roll 7 10.5 0 7 4 8 x z", "roll 7 10.5 0 6 5 8 x z", "roll 7 10.5 0 8 3.5 8.5 x z"),
        ("", "ball 5 8 6 8 9.5 10.5 x", "box 9 12 10 12 2 3 x", "box -9 9 3 5 10 11 z"),
    ]),
    "chair": Kind(((0.5, 0.75), (0.8, 1.2), (0.5, 0.7)), [
        ("box -10 10 8 9.5 -10 10", "drum -10 10 8 9.5 -10 10", "wedge -10 10 8 10.5 -10 10"),
        (*legs(8), "box -9 9 0 8 -9 9"),
        ("box -9.5 9.5 9 20 -10 -8.5", "wedge -9.5 9.5 9 20 -10 -8.5", "ramp -9 9 9 20 -12 -7",
         "box -9 -8 9 20 -10 -9 4-7 17 0 0 0; box -10 10 18 20 -10 -8.5",
         "box 8 9.5 9 20 -10 -8.5 x; box -9 9 11 13 -10 -9 2-3 0 6 0 0",
         "drum 8 9.5 9 20 -10 -8.5 x; box -9 9 14 20 -10 -8.5"),
        ("", "", "box 8.5 10 13 14 -9 9 x; box 8.5 10 9 13 6 8 x", "box 8.5 10 9 14 -9 9 x"),
    ]),
    "counter": Kind(((1.2, 2.6), (0.9, 1.1), (0.58, 0.66)), [
        ("box -10 10 0 17 -10 7; box -10 10 17 18 -10 10; box -10 10 18 20 -10 -9",),
        ("box -9.5 -6 2 16 7 8 3-5 15.5 0 0 0",),
    ]),
    "cup": Kind(((0.5, 0.9), (0.5, 0.9), (0.5, 0.9)), [
        ("cup -8 8 4 20 -8 8",),
        ("loop 6 14 7 17 -1.5 1.5", "loop -14 -6 7 17 -1.5 1.5 x", "loop 6 15 9 18 -1 1",
         "box 7 13 7 9 -1 1 2 0 8 0 0; box 11.5 13 7 17 -1 1", ""),
        ("drum -6 6 0 4 -6 6", "cone -5 5 0 4 -5 5", "drum -1.2 1.2 0 5 -1.2 1.2; drum -6 6 0 0.7 -6 6",
         "cup -12 12 2 4.5 -12 12; drum -6 6 0 4 -6 6"),
    ]),
    "curtain": Kind(((0.5, 1.1), (1.8, 2.3), (0.1, 0.16)), [
        ("box -11 11 19.5 20 -2 2",),
        ("drum -10 -7.5 0 19.5 -10 3 5-8 17.5 0 0 0; drum -8.5 -6 0 19.5 -3 10 5-8 14 0 0 0",),
    ]),
    "desk": Kind(((1.1, 1.7), (0.7, 0.8), (0.55, 0.8)), [
        ("box -10 10 19 20 -10 10; box 3 9 1 6 -9 9 3 0 12 0 0; box 5 7 3 4 9 10 3 0 12 0 0",),
        ("box -9 -8 0 19 8 9 z", "box -10 -9 0 19 -9 9"),
        ("", "box -4 4 23 31 -4 -3; box -1 1 20 24 -4.5 -3.5; box -3 3 20 20.5 -6 -2"),
    ]),
    "door": Kind(((0.8, 1.0), (1.95, 2.1), (0.1, 0.14)), [
        ("box 9 10 0 20 -10 10 x; box -9 9 19 20 -10 10; box -9 9 0 19 -4 4; box 6 8 9 9.5 4 12",),
        ("", "box -6 6 2 8 4 6 2 0 8 0 0"),
    ]),
    "guitar": Kind(((0.6, 0.9), (1.5, 2.0), (0.15, 0.4)), [
        ("barrel -10 10 0 9 -10 10; barrel -7 7 6 12 -10 10", "ball -10 10 0 10 -10 10; ball -7 7 6 13 -10 10",
         "box -9 9 0 8 -10 10; box 4 8 8 12 -10 10 x", "ramp -9 9 0 9 -10 10; wedge -6 6 5 11 -10 10"),
        ("box -1.5 1.5 9 18 5 11", "box -1 1 9 18 6 10"),
        ("wedge -3 3 17 20 2 9", "box -2.5 2.5 17 20 3 9", "wedge -2 2 16 20 2 9"),
        ("box 2.5 4 17.4 17.8 4 8 3 0 2 0 0 x", "box -4.5 -2 17.4 17.8 4 8 5 0 2.2 0 0"),
        ("box -5 5 3 4 9 13", "barrel -3 3 6 8 9 12", ""),
        ("", "", "box -7 7 -2 0 -25 25; ramp -2 2 -1 9 -25 -8"),
    ]),
    "lamp": Kind(((0.4, 0.9), (0.9, 1.8), (0.4, 0.9)), [
        ("drum -6 6 0 1 -6 6; drum -0.7 0.7 0 15 -0.7 0.7", "cone -7 7 0 1.5 -7 7; drum -1 1 0 15 -1 1",
         "ball -5 5 0 9 -5 5; drum -1 1 8 15 -1 1", "box -4 4 0 10 -4 4; drum -1 1 10 15 -1 1",
         "box 0 7 0 0.8 -0.7 0.7 3 0 0 0 0.667; drum -0.7 0.7 0 15 -0.7 0.7",
         "drum -5 5 19 20 -5 5; drum -0.5 0.5 11 19 -0.5 0.5"),
        ("hood -8 8 13 20 -8 8", "hood -10 10 14 19 -10 10", "ball -7 7 12 20 -7 7", "cup -8 8 13 18 -8 8",
         "hood 2 9 13 18 -3.5 3.5 3 0 0 0 0.667; box 0 6 15 15.7 -0.4 0.4 3 0 0 0 0.667",
         "box 0 9 15 15.8 -0.6 0.6; hood 5 13 11 15 -4 4"),
    ]),
    "night_stand": Kind(((0.45, 0.8), (0.5, 1.1), (0.4, 0.6)), [
        ("box -9.5 9.5 5 19 -10 8", "box 8.5 9.5 5 19 -10 9 x; box -9 9 5 6 -10 9 3 0 12.5 0 0; box -9 9 5 19 -10 -9"),
        ("box -8.5 8.5 6 9 8 10 2-3 0 9 0 0", "box -8.5 8.5 6 11 8 10; box -8.5 8.5 12.5 18 8 10",
         "box -8.5 8.5 13 18 -8 13"),
        ("box -4 4 15 16 10 12", "ball -1.5 1.5 14 16 10 12.5", "ball 3 5 8 10 10 12 x",
         "ball -1.5 1.5 7.5 9.5 10 12 2 0 7 0 0"),
        ("box -10 10 19 20 -10 10", "box -12 12 19 20 -12 12"),
        (*legs(5), "", "box -9 9 0 5 -9 7"),
    ]),
    "picture": Kind(((0.3, 1.0), (0.3, 0.8), (0.05, 0.07)), [(f"{_FRAME}; box -9 9 1 19 -10 4",)], (1.2, 1.5)),
    "refrigerator": Kind(((0.58, 0.85), (1.5, 1.9), (0.66, 0.8)), [
        ("box -10 10 0 20 -10 8",),
        ("box -10 10 0 12 8.2 10; box -10 10 12.3 20 8.2 10; box -9 -8 8 11 10 12; box -9 -8 13 16 10 12",
         "box -10 10 0 7 8.2 10; box -10 10 7.3 20 8.2 10; box -9 -8 3 6 10 12; box -9 -8 8 12 10 12"),
    ]),
    "shower_curtain": Kind(((1.0, 1.6), (1.6, 1.9), (0.05, 0.08)), [
        ("box -10 10 19.5 20 -2 2",),
        ("drum -10 -5 0 19 -10 2 3-4 15 0 0 0; drum -7.5 -2.5 0 19 -2 10 3-4 10 0 0 0",),
    ], (0.25, 0.35)),
    "basin": Kind(((0.4, 0.55), (0.3, 0.4), (0.38, 0.46)), [
        ("cup -10 10 0 10 -10 10; box -1 1 8 20 -10 -8; box -0.7 0.7 18 20 -10 -3",),
    ]),
    "sink": Kind(((0.42, 0.6), (1.0, 1.15), (0.38, 0.46)), [
        ("cup -10 10 13 17 -10 10; box -1 1 16 20 -10 -8; box -0.7 0.7 19.3 20 -10 -3",),
        ("drum -3 3 0 13 -3 3", "cone -4 4 0 14 -4 4"),
    ]),
    "sofa": Kind(((1.0, 2.4), (0.7, 1.0), (0.7, 1.0)), [
        ("box -10 10 2 9 -10 10",),
        ("box -10 10 2 20 -10 -6", "wedge -10 10 2 20 -10 -5", "box -10 10 2 18 -10 -7; box -9 -1 9 20 -8 -5 x",
         "ramp -10 10 7 20 -12 -3"),
        ("box 8.5 10.5 0 14 -10 10 x", "box 8 10.5 2 12 -10 10 x; barrel 7.7 11 11 14 -10 10 x",
         "wedge 8.5 10.5 2 14 -10 10 x"),
        ("box -8 -3 9 11 -6 10 2-3 11 0 0 0", "box -8 8 9 11 -6 10", "wedge 0.2 8 9 11.5 -6 10 x", ""),
        ("drum 8 9.5 0 2 8 9.5 x z", "box -9 9 0 2 -9 9"),
        ("", "", "", "box 2 10 2 9 10 17"),
    ]),
    "stairs": Kind(((0.5, 1.1), (0.9, 1.8), (0.9, 1.8)), [
        ("box -10 10 0 1.5 7 10 5-10 0 18 -17 0; ramp 9 10 0 19 -10 10 x",
         "box -10 10 0 1 6.5 10 5-9 0 18 -16 0; ramp -2 2 0 18 -10 10",
         "box -10 10 0 2 7 10 5-10 0 18 -17 0; ramp -10 10 0 19 -10 10",
         "box 1 10 0 1 -3 3 6-11 0 18 0 0.7; drum -1.3 1.3 0 20 -1.3 1.3",
         "box -10 10 0 4 7 10 4-7 0 16 -17 0; box -10 10 0 1 -10 10; box -10 10 0 20 -10 -9"),
        ("", "", "drum 9 10 2 9 8 9 4-6 0 15 -16 0 x; ramp 9 10 7 26 -10 10 x", "box -10 10 19 20 -16 -10"),
    ]),
    "table": Kind(((0.8, 1.7), (0.4, 1.0), (0.6, 1.1)), [
        ("box -10 10 18.5 20 -10 10", "box -11 11 18 20 -11 11", "drum -12 12 18.5 20 -12 12",
         "box -10 10 17 20 -10 10"),
        legs(18.5),
        ("", "", "box -9 9 6 7 -9 9", "box -9 9 16 18 9 10 z; box 9 10 16 18 -9 9 x", "box -8 8 15.5 18 -8 8"),
    ]),
    "toilet": Kind(((0.38, 0.46), (0.75, 0.85), (0.65, 0.75)), [
        ("cup -9 9 0 11 -4 10; box -6 6 0 11 -9 -3; box -10 10 10 20 -10 -5",),
        ("", "drum -9 9 11 11.7 -4 10", "ramp -9 9 11 19 -5 -2"),
    ]),
    "window": Kind(((0.8, 1.8), (0.9, 1.3), (0.08, 0.2)), [
        (_FRAME,),
        ("box -9 9 1 19 -8 -6; box -11.5 11.5 0 0.6 0 14",),
        ("box -0.5 0.5 1 19 -6 6", "box -3.5 -2.5 1 19 -6 6 2 6 0 0 0"),
    ], (0.8, 1.1)),
}
# fmt: on


@functools.cache
def unit(solid: str) -> np.ndarray:
    """Return the vertices of a solid (V, 3), stretched to the bounds -1..1."""
    vertices = SOLIDS[solid].vertices
    low, high = vertices.min(0), vertices.max(0)
    return (vertices - low) / (high - low) * 2 - 1


def part(text: str, rng: np.random.Generator) -> Mesh:
    """Return a part with its copies."""
    solid, *words = text.split()
    low, high = np.array(words[:6], float).reshape(3, 2).T
    mesh = Mesh((low + high) / 2 + unit(solid) * (high - low) / 2, SOLIDS[solid].faces)
    copies = words[6:]
    while copies:
        if copies[0] in ("x", "z"):
            mesh, copies = both(mesh, copies[0]), copies[1:]
            continue
        minimum, maximum = copies[0].partition("-")[::2]
        count = rng.integers(int(minimum), int(maximum or minimum) + 1)
        x, y, z, turns = np.array(copies[1:5], float) / (count - 1)
        mesh = join(mesh.moved(x * i, y * i, z * i).turned("y", turns * i) for i in range(count))
        copies = copies[5:]
    return mesh


def build(kind: str, rng: np.random.Generator) -> Mesh:
    """Return a random object of a kind in meters, upright, its middle at x = z = 0."""
    sizes, groups, base = KINDS[kind]
    rows = [group[rng.integers(len(group))] for group in groups]
    mesh = join(part(text, rng) for row in rows if row for text in row.split(";"))
    relative = mesh.vertices / np.array([10, 20, 10])
    bent = np.sign(relative) * np.abs(relative) ** np.exp(rng.uniform(-BEND, BEND, 3))
    size = np.array([rng.uniform(*limits) for limits in sizes]) * np.array([0.5, 1, 0.5])
    return Mesh(bent * size, mesh.faces).moved(y=rng.uniform(*base))
