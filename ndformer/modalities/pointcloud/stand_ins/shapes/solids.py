"""Closed triangle meshes of simple solids, and points on them. y is up; faces run counter-clockwise from outside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ndformer.modalities.pointcloud.formats.meshes import spread as spread_points

Outline = Sequence[tuple[float, float]] | np.ndarray  # (K, 2)


@dataclass(frozen=True)
class Mesh:
    vertices: np.ndarray  # (V, 3)
    faces: np.ndarray  # (F, 3)

    def moved(self, x: float = 0, y: float = 0, z: float = 0) -> Mesh:
        return Mesh(self.vertices + np.array([x, y, z]), self.faces)

    def scaled(self, x: float = 1, y: float = 1, z: float = 1) -> Mesh:
        """Scale by positive factors: negative ones would turn the solid inside out."""
        return Mesh(self.vertices * np.array([x, y, z]), self.faces)

    def turned(self, axis: str, turns: float) -> Mesh:
        """Rotate about a coordinate axis, right-handed, by a number of full turns."""
        first, second = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
        cos, sin = math.cos(2 * math.pi * turns), math.sin(2 * math.pi * turns)
        out = self.vertices.copy()
        out[:, first] = cos * self.vertices[:, first] - sin * self.vertices[:, second]
        out[:, second] = sin * self.vertices[:, first] + cos * self.vertices[:, second]
        return Mesh(out, self.faces)

    def mirrored(self, axis: str) -> Mesh:
        out = self.vertices.copy()
        out[:, "xyz".index(axis)] *= -1
        return Mesh(out, self.faces[:, ::-1])


def join(meshes: Iterable[Mesh]) -> Mesh:
    parts = list(meshes)
    starts = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    faces = np.concatenate([part.faces + start for part, start in zip(parts, starts)])
    return Mesh(np.concatenate([part.vertices for part in parts]), faces)


def both(mesh: Mesh, axis: str = "x") -> Mesh:
    """Join a mesh and its mirror image."""
    return join([mesh, mesh.mirrored(axis)])


# ------------------------------------------------------------------------------------------------------------- solids


def box(x: float, y: float, z: float, top: tuple[float, float] = (1, 1), lean: tuple[float, float] = (0, 0)) -> Mesh:
    """Return a box that stands on y = 0. `top` shrinks its upper side along x and z, `lean` moves it."""
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * np.array([x, z]) / 2
    low = np.insert(corners, 1, 0, axis=1)
    high = np.insert(corners * np.array(top) + np.array(lean), 1, y, axis=1)
    quads = np.array([[0, 1, 2, 3], [4, 7, 6, 5], [0, 4, 5, 1], [1, 5, 6, 2], [2, 6, 7, 3], [3, 7, 4, 0]])
    return Mesh(np.concatenate([low, high]), quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3))


def lathe(outline: Outline, sides: int = 20) -> Mesh:
    """Revolve an outline (radius, height) around the y axis. Follow it with the solid on the left: up on the outside.

    It starts and ends on the axis, or returns to its start. Four sides face along x and z.
    """
    radius, height = np.asarray(outline, float).T
    k, n = len(radius), sides
    angle = 2 * math.pi * (np.arange(n) + 0.5) / n
    ring = np.stack([np.cos(angle), np.zeros(n), np.sin(angle)], -1)  # (n, 3)
    vertices = radius[:, None, None] * ring + height[:, None, None] * np.array([0, 1, 0])  # (k, n, 3)
    a = (np.arange(k - 1)[:, None] * n + np.arange(n)).ravel()
    b = (np.arange(k - 1)[:, None] * n + (np.arange(n) + 1) % n).ravel()
    rising, descending = np.stack([a, a + n, b + n], 1), np.stack([a, b + n, b], 1)
    # where the outline touches the axis, one of the two triangles has no area
    faces = np.concatenate([rising[np.repeat(radius[1:] > 0, n)], descending[np.repeat(radius[:-1] > 0, n)]])
    return Mesh(vertices.reshape(-1, 3), faces)


def cylinder(radius: float, height: float, top: float = 1.0, sides: int = 16) -> Mesh:
    """Return a cylinder that stands on y = 0, `top` times as wide at its upper end; 0 makes a cone."""
    return lathe([(0, 0), (radius, 0), (radius * top, height), (0, height)], sides)


def ball(x: float, y: float, z: float, sides: int = 14) -> Mesh:
    """Return an ellipsoid around the origin with the half axes x, y and z."""
    turn = np.linspace(-0.5, 0.5, sides // 2 + 1) * math.pi
    outline = np.column_stack([np.cos(turn), np.sin(turn)])
    outline[[0, -1], 0] = 0
    return lathe(outline, sides).scaled(x, y, z)


def vessel(outline: Outline, wall: float, sides: int = 20) -> Mesh:
    """Return a vessel with an outer outline from the bottom up, hollow and open at the top."""
    outer = np.asarray(outline, float)
    inner = np.column_stack([np.maximum(outer[:, 0] - wall, 0.2 * wall), outer[:, 1]])[::-1]
    inner[-1, 1] += wall
    return lathe(np.concatenate([[(0, outer[0, 1])], outer, inner, [(0, inner[-1, 1])]]), sides)


def tube(path: Sequence[Sequence[float]] | np.ndarray, radius: float, sides: int = 8) -> Mesh:
    """Return a round bar along points (x, y, z) of one plane."""
    points = np.asarray(path, float)
    k = len(points)
    chords = points[1:] - points[:-1]
    tangent = np.concatenate([chords[:1], chords[:-1] + chords[1:], chords[-1:]])
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    plane = np.cross(chords[:-1], chords[1:]).sum(0)
    if np.linalg.norm(plane) < 1e-9:  # straight: any direction across will do
        plane = np.cross(tangent[0], np.eye(3)[np.abs(tangent[0]).argmin()])
    across = plane / np.linalg.norm(plane)
    third = np.cross(tangent, across)  # (k, 3)
    angle = 2 * math.pi * (np.arange(sides) + 0.5) / sides
    ring = np.cos(angle)[None, :, None] * across + np.sin(angle)[None, :, None] * third[:, None]  # (k, sides, 3)
    rings = points[:, None] + radius * ring
    a = (np.arange(k - 1)[:, None] * sides + np.arange(sides)).ravel()
    b = (np.arange(k - 1)[:, None] * sides + (np.arange(sides) + 1) % sides).ravel()
    first, last = np.arange(sides), np.arange(sides) + (k - 1) * sides
    start, stop = np.full(sides, k * sides), np.full(sides, k * sides + 1)
    walls = [np.stack([a, b + sides, a + sides], 1), np.stack([a, b, b + sides], 1)]
    caps = [np.stack([start, np.roll(first, -1), first], 1), np.stack([stop, last, np.roll(last, -1)], 1)]
    faces = np.concatenate(walls + caps)
    return Mesh(np.concatenate([rings.reshape(-1, 3), points[[0, -1]]]), faces)


def arc(radius: float, start: float, stop: float, pieces: int = 8) -> np.ndarray:
    """Return points (pieces + 1, 2) of a circle around the origin between two angles in turns."""
    angle = 2 * math.pi * np.linspace(start, stop, pieces + 1)
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


# ------------------------------------------------------------------------------------------------------------- points


def scatter(mesh: Mesh, count: int, rng: np.random.Generator) -> np.ndarray:
    """Sample points (count, 6) uniformly on the surface, with outward unit normals."""
    (points,), normals = spread_points(mesh.vertices, mesh.faces, count, rng)
    return np.concatenate([points, normals], 1)


def unit_sphere(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the centroid of points (N, 3), and the distance of the farthest from it."""
    center = points.mean(0)
    return center, float(np.linalg.norm(points - center, axis=1).max())
