"""Triangle meshes: a reader of OFF files, and sampling of points on a surface."""

import re
from collections.abc import Iterable

import numpy as np

HEADER = re.compile(r"(?:ST)?C?N?OFF\b\s*|(?:ST)?C?N?OFF(?=\d)", re.IGNORECASE)


def parse_off(rows: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Parse the lines of an OFF file to vertices (V, 3) and triangles (F, 3). Raise ValueError for a damaged file.

    Many files of ModelNet have the counts right after the header: "OFF490 518 0".
    """
    lines = [line for line in (line.partition("#")[0].strip() for line in rows) if line]
    header = HEADER.match(lines[0]) if lines else None
    if header is None:
        raise ValueError("it does not begin with OFF")
    counts_line = lines[0][header.end() :]
    body = ([counts_line] if counts_line else []) + lines[1:]
    counts = body[0].split() if body else []
    if len(counts) < 2 or not all(count.isdigit() for count in counts):
        raise ValueError("it must have the numbers of vertices and faces after OFF")
    V, F = int(counts[0]), int(counts[1])
    if len(body) - 1 < V + F:
        raise ValueError(f"it must have a line for each of {V} vertices and {F} faces, got {len(body) - 1} lines")
    if V == 0:
        raise ValueError("it has no vertices")
    vertices = np.loadtxt(body[1 : V + 1], usecols=(0, 1, 2), ndmin=2)
    return vertices, triangles(polygons(body[V + 1 : V + F + 1]), V)


def polygons(lines: list[str]) -> list[np.ndarray]:
    """Parse lines of "k v1 ... vk [color]" to arrays (F, k), one for each k."""
    corners = [int(line.split(None, 1)[0]) for line in lines]
    arrays = []
    for k in sorted(set(corners)):
        if k >= 3:  # faces with fewer corners have no area
            chosen = [line for line, count in zip(lines, corners) if count == k]
            if k > len(chosen[0].split()) - 1:  # before a list of k columns is allocated
                raise ValueError(
                    f"a face must have a number of corners and as many vertices, got {k} in the line '{chosen[0][:40]}'"
                )
            arrays.append(np.loadtxt(chosen, usecols=range(1, k + 1), dtype=np.int64, ndmin=2))
    return arrays


def triangles(faces: list[np.ndarray], vertices: int) -> np.ndarray:
    """Split polygons (F, k) of each k into triangles (F', 3) that share the first corner of their polygon."""
    fans = [np.stack([np.broadcast_to(f[:, :1], f[:, 2:].shape), f[:, 1:-1], f[:, 2:]], 2) for f in faces]
    corners = np.concatenate([fan.reshape(-1, 3) for fan in fans]) if fans else np.zeros((0, 3), np.int64)
    if corners.size and (corners.min() < 0 or corners.max() >= vertices):
        wrong = corners[(corners < 0) | (corners >= vertices)][0]
        raise ValueError(f"corners of faces must be vertices 0 to {vertices - 1}, got {wrong}")
    return corners


def spread(
    vertices: np.ndarray, faces: np.ndarray, count: int, rng: np.random.Generator, *values: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Sample points on a mesh: [points, *values], with `values` (V, ...) of vertices interpolated, and normals."""
    a, b, c = (vertices[faces[:, i]] for i in range(3))  # (F, 3)
    cross = np.cross(b - a, c - a)
    size = np.linalg.norm(cross, axis=1)  # twice the area
    cumulative = np.cumsum(size)
    if not len(faces) or not 0 < cumulative[-1] < np.inf:
        raise ValueError("its faces have no area")
    face = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    u, v = np.sqrt(rng.random(count))[:, None], rng.random(count)[:, None]
    corners = [[source[faces[face, i]] for i in range(3)] for source in (vertices, *values)]
    mixed = [(1 - u) * first + u * (1 - v) * second + u * v * third for first, second, third in corners]
    return mixed, cross[face] / size[face, None]


def vertex_normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return unit normals (V, 3) of vertices: the area-weighted mean over their triangles, 0 without triangles."""
    a, b, c = (points[faces[:, i]] for i in range(3))
    cross = np.cross(b - a, c - a)  # its length is twice the area
    total = np.stack([np.bincount(faces.ravel(), np.repeat(cross[:, p], 3), len(points)) for p in range(3)], 1)
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
