"""One cloud from one file: .txt, .xyz, .npy, .off, .ply or a LiDAR's .bin. Every way that a file can be wrong is a
sentence."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.lidar_bin import read_lidar
from ndformer.modalities.pointcloud.formats.meshes import parse_off, surface, triangles
from ndformer.modalities.pointcloud.formats.ply import parse_ply

Cloud = dict[str, np.ndarray]  # points (n, 3), and, where they are known, normals (n, 3); float32

ENDINGS = (".txt", ".xyz", ".npy", ".off", ".bin", ".ply")
DAMAGE = (ValueError, ArithmeticError, OSError, EOFError, MemoryError)
ROW = 128  # bytes of memory that a line of a mesh takes
SPREAD = 10_000  # points on a mesh, as many as ModelNet's resampled clouds have


def read_cloud(path: Path, rng: np.random.Generator | None = None) -> Cloud:
    """Points, from meshes (with `rng`) spread evenly over their area."""
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path} is no point cloud by its name: known are {', '.join(ENDINGS)}")
    try:
        if path.stat().st_size == 0:
            raise ValueError("it is empty")
        with np.errstate(all="ignore"):  # what overflows is found below
            return checked(*READERS[path.suffix.lower()](path, rng or np.random.default_rng(0)))
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except DAMAGE as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} cannot be read as a point cloud ({reason}): replace it or take it away") from None


def checked(points: np.ndarray, normals: np.ndarray | None = None) -> Cloud:
    """What can be worked with, in float32; else a ValueError."""
    found = dict(points=points) if normals is None else dict(points=points, normals=normals)
    found = {name: np.ascontiguousarray(values, np.float32) for name, values in found.items()}
    for values in found.values():
        bad = np.flatnonzero(~np.isfinite(values).all(1))
        if len(bad):
            raise ValueError(f"{len(bad)} of its {len(values)} points are not finite, the first is point {bad[0] + 1}")
    if len(points) < 2:
        raise ValueError(f"it holds {len(points)} points and a cloud takes two or more")
    return found


def columns(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """x, y, z and, where there are six columns, the normals."""
    if rows.ndim != 2 or rows.shape[1] not in (3, 6) or rows.dtype.kind not in "fiu":
        raise ValueError(
            f"it holds {rows.dtype} of shape {rows.shape} and not rows of 3 numbers (x, y, z) or 6 (and a normal)"
        )
    return rows[:, :3], rows[:, 3:] if rows.shape[1] == 6 else None


def read_text(path: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of numbers between commas or blanks."""
    stripped = (line.strip() for line in foreign.text_rows(path))
    rows = (line for line in stripped if line and not line.startswith("#"))
    first = next(rows, None)
    if first is None:
        raise ValueError("it is empty")
    mark = "," if "," in first else None
    columns(np.loadtxt([first], delimiter=mark, ndmin=2))  # before millions of others
    return columns(np.loadtxt(itertools.chain([first], rows), delimiter=mark, ndmin=2))


def read_npy(path: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    return columns(foreign.array(path))


def read_off(path: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    vertices, faces = parse_off(mesh_rows(path))
    return surface(vertices, faces, SPREAD, rng)


def mesh_rows(path: Path) -> Iterator[str]:
    """As many as may be kept at once: a line of two bytes becomes an object of many."""
    most = foreign.limit() // ROW
    for number, row in enumerate(foreign.text_rows(path), 1):
        if number > most:
            foreign.check_size(path, ROW * number)
        yield row


def read_ply(path: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    vertices, faces = parse_ply(foreign.content(path))
    for name in "xyz":
        if name not in vertices:
            raise ValueError(f"its vertices have no {name}")
    points = np.stack([vertices[name] for name in "xyz"], 1).astype(np.float64)
    if faces:
        return surface(points, triangles(faces, len(points)), SPREAD, rng)
    normals = [vertices[name] for name in ("nx", "ny", "nz") if name in vertices]
    return points, np.stack(normals, 1) if len(normals) == 3 else None


READERS = {".txt": read_text, ".xyz": read_text, ".npy": read_npy, ".off": read_off, ".ply": read_ply}
READERS |= {".bin": read_lidar}
