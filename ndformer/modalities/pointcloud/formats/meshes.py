"""Triangle meshes: OFF files, and points spread over a surface."""

import re
from collections.abc import Iterable

import numpy as np

HEADER = re.compile(r"(?:ST)?C?N?OFF\b\s*|(?:ST)?C?N?OFF(?=\d)", re.IGNORECASE)


def parse_off(rows: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) and triangles (F, 3) of the lines of an OFF file. What is wrong with it is a ValueError.

    Many files of ModelNet have their header glued to the counts: "OFF490 518 0".
    """
    lines = [line for line in (line.partition("#")[0].strip() for line in rows) if line]
    header = HEADER.match(lines[0]) if lines else None
    if header is None:
        raise ValueError("it does not begin with OFF")
    rest = lines[0][header.end() :]
    body = ([rest] if rest else []) + lines[1:]
    counts = body[0].split() if body else []
    if len(counts) < 2 or not all(count.isdigit() for count in counts):
        raise ValueError("the numbers of vertices and faces do not follow OFF")
    V, F = int(counts[0]), int(counts[1])
    if len(body) - 1 < V + F:
        raise ValueError(f"it announces {V} vertices and {F} faces, but {len(body) - 1} lines follow")
    if V == 0:
        raise ValueError("it has no vertices")
    vertices = np.loadtxt(body[1 : V + 1], usecols=(0, 1, 2), ndmin=2)
    return vertices, triangles(polygons(body[V + 1 : V + F + 1]), V)


def polygons(lines: list[str]) -> list[np.ndarray]:
    """Lines of "k v1 ... vk [colour]" as arrays (F, k), one for each k."""
    corners = [int(line.split(None, 1)[0]) for line in lines]
    found = []
    for k in sorted(set(corners)):
        if k >= 3:  # fewer corners have no area
            chosen = [line for line, own in zip(lines, corners) if own == k]
            if k > len(chosen[0].split()) - 1:  # before a list of so many columns is made
                raise ValueError(f"a face announces {k} corners in the line '{chosen[0][:40]}'")
            found.append(np.loadtxt(chosen, usecols=range(1, k + 1), dtype=np.int64, ndmin=2))
    return found


def triangles(faces: list[np.ndarray], vertices: int) -> np.ndarray:
    """Polygons (F, k) of each k as (F', 3): those of a polygon share its first corner."""
    fans = [np.stack([np.broadcast_to(f[:, :1], f[:, 2:].shape), f[:, 1:-1], f[:, 2:]], 2) for f in faces]
    found = np.concatenate([fan.reshape(-1, 3) for fan in fans]) if fans else np.zeros((0, 3), np.int64)
    if found.size and (found.min() < 0 or found.max() >= vertices):
        wrong = found[(found < 0) | (found >= vertices)][0]
        raise ValueError(f"a face has vertex {wrong}, but vertices are numbered 0 to {vertices - 1}")
    return found


def surface(
    vertices: np.ndarray, faces: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Points (count, 3) spread evenly over a mesh's area, and the normals of the triangles that they lie on."""
    (points,), normals = spread(vertices, faces, count, rng)
    return points, normals


def spread(
    vertices: np.ndarray, faces: np.ndarray, count: int, rng: np.random.Generator, *values: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """The same, with what stands at the vertices (V, ...) mixed alike: points and values (count, ...), and normals."""
    a, b, c = (vertices[faces[:, i]] for i in range(3))  # (F, 3)
    cross = np.cross(b - a, c - a)
    size = np.linalg.norm(cross, axis=1)  # twice the area
    reach = np.cumsum(size)
    if not len(faces) or not 0 < reach[-1] < np.inf:
        raise ValueError("its faces have no area")
    face = np.searchsorted(reach, rng.random(count) * reach[-1], side="right")
    u, v = np.sqrt(rng.random(count))[:, None], rng.random(count)[:, None]
    corners = [[of[faces[face, i]] for i in range(3)] for of in (vertices, *values)]
    mixed = [(1 - u) * first + u * (1 - v) * second + u * v * third for first, second, third in corners]
    return mixed, cross[face] / size[face, None]


def vertex_normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """(V, 3) unit vectors: the mean of the normals of a vertex's triangles (F, 3), weighted by their areas; 0 for a
    vertex of none."""
    a, b, c = (points[faces[:, i]] for i in range(3))
    cross = np.cross(b - a, c - a)  # twice the area long
    total = np.stack([np.bincount(faces.ravel(), np.repeat(cross[:, p], 3), len(points)) for p in range(3)], 1)
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
