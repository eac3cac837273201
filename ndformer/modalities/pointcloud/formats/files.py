"""Reader of a point cloud from a file or a scene's folder, shared by datasets, predict, peek and show_tokens.

Every error of a file is reported in one sentence.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.columns import (
    Cloud,
    Columns,
    UnnamedError,
    build_cloud,
    byte_colors,
    compact_positions,
    integer_labels,
    name_rows,
    plain,
    split_names,
)
from ndformer.modalities.pointcloud.formats.las import parse_las
from ndformer.modalities.pointcloud.formats.lidar_bin import read_lidar
from ndformer.modalities.pointcloud.formats.meshes import parse_off, spread, triangles, vertex_normals
from ndformer.modalities.pointcloud.formats.models import read_model
from ndformer.modalities.pointcloud.formats.pcd import parse_pcd
from ndformer.modalities.pointcloud.formats.ply import parse_ply
from ndformer.modalities.pointcloud.formats.scene import PLACES, read_scene
from ndformer.modalities.pointcloud.formats.text import read_text
from ndformer.moved import old_names

DAMAGE = (ValueError, ArithmeticError, OSError, EOFError, MemoryError)
ROW = 128  # bytes of memory for a line of a mesh
SPREAD = 10_000  # points sampled on a mesh, as many as ModelNet's resampled clouds have
REMEDY = "name them with the dataset's `columns`, as 'x y z - r g b', where - skips a column"
OPTION = "--cfg-options \"test_dataloader.dataset.columns='x y z - r g b'\""


class ColumnsError(DataError):
    """A table whose columns cannot be recognized."""


class LoadedCloud(NamedTuple):
    """A point cloud that was read, and what happened to it."""

    cloud: Cloud
    left_out: int  # number of points with a value that is not finite
    mesh: bool = False  # the points were sampled on a mesh

    def checked(self, source: object) -> Cloud:
        """Return the cloud, with a warning where points are left out of it."""
        if self.left_out:
            warnings.warn(f"{source}: {self.warning}", stacklevel=4)
        return self.cloud

    @property
    def warning(self) -> str:
        points = self.left_out + len(self.cloud["points"])
        return f"{self.left_out} of its {points} points have numbers that are not finite, and are left out"


def read_cloud(path: Path, rng: np.random.Generator | None = None, columns: str | None = None) -> Cloud:
    """Read the points of a file, and normals and colors 0..255 where it has some.

    Points of a mesh are sampled uniformly on its surface, with `rng`. `columns` names the columns of text and arrays
    without a header: "x y z r g b", and - for a column to skip. Without both, columns 4 to 6 are recognized as normals
    or colors.
    """
    cloud = load_cloud(path, rng, columns).checked(path)
    return {name: values for name, values in cloud.items() if name != "labels"}


def read_labeled(path: Path, labels: str, columns: str | None = None) -> Cloud:
    """Read a cloud with `labels` (n,) where it has some.

    In a folder, `labels` names the label file; in a file, it names the label column, besides the usual names.
    """
    return load_cloud(path, None, columns, labels).checked(path)


def load_cloud(
    path: Path, rng: np.random.Generator | None = None, columns: str | None = None, labels: str | None = None
) -> LoadedCloud:
    """Read a cloud from a file or a scene's folder."""
    if path.suffix.lower() not in READERS and not foreign.is_dir(path):
        raise DataError(
            f"{path} has no ending of a point cloud: known are {', '.join(ENDINGS)}, and folders with a {PLACES}"
        )
    try:
        if foreign.is_dir(path):
            return finite_points(read_scene(path, labels))
        if foreign.status(path).st_size == 0:
            raise ValueError("it is empty")
        with np.errstate(all="ignore"):  # overflows become infinite and are found below
            table, faces = READERS[path.suffix.lower()](path, None if columns is None else split_names(columns))
            cloud = build_cloud(table, labels and Path(labels).stem)
            if faces is None or not len(faces):
                return finite_points(cloud)
            return from_mesh(cloud, faces, rng or np.random.default_rng(0))
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except UnnamedError as error:
        raise ColumnsError(f"{path} {error}: {REMEDY}", OPTION) from None
    except DAMAGE as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} cannot be read as a point cloud ({reason}): replace it or remove it") from None


def to_cloud(value: Any, columns: str | None = None) -> Cloud:
    """Convert rows of numbers (array or tensor), or a mapping of columns by name, to a cloud like read_cloud's."""
    if isinstance(value, Mapping):
        table = {plain(str(name)): np.asarray(values) for name, values in value.items()}
        if len({values.shape for values in table.values()}) != 1 or next(iter(table.values())).ndim != 1:
            shapes = ", ".join(f"{name} {values.shape}" for name, values in table.items())
            raise ValueError(f"columns of a cloud must be arrays (points,) of one length, got {shapes}")
    else:
        rows = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        if rows.dtype.names:
            return to_cloud({name: rows[name] for name in rows.dtype.names})
        table = name_rows(rows, None if columns is None else split_names(columns))
    with np.errstate(all="ignore"):  # overflows become infinite and are found below
        cloud = finite_points(build_cloud(table)).checked("the cloud")
    return {name: values for name, values in cloud.items() if name != "labels"}


def from_mesh(cloud: Cloud, faces: np.ndarray, rng: np.random.Generator) -> LoadedCloud:
    """Sample points on a mesh; a scan keeps its vertices if they are labeled, or colored and many."""
    points = cloud["points"].astype(np.float64)
    if "labels" in cloud or ("colors" in cloud and len(points) >= SPREAD):
        return finite_points(dict(normals=vertex_normals(points, faces)) | cloud)
    colors = [byte_colors(cloud["colors"])] if "colors" in cloud else []
    (points, *colors), normals = spread(points, faces, SPREAD, rng, *colors)
    loaded = finite_points(dict(points=points, normals=normals) | dict(zip(["colors"], colors)))
    return loaded._replace(mesh=True)


def finite_points(cloud: Cloud) -> LoadedCloud:
    """Drop points that are not finite, and convert all parts to their final types. Raise for fewer than two points."""
    n = len(cloud["points"])
    places = [values for name, values in cloud.items() if name != "labels"]
    with np.errstate(over="ignore"):
        mask = np.all([np.isfinite(values.astype(np.float32)).all(1) for values in places], 0)
    if not mask.all():
        cloud = {name: values[mask] for name, values in cloud.items()}
    parts = dict(points=compact_positions(cloud["points"]))
    if "normals" in cloud:
        parts["normals"] = np.ascontiguousarray(cloud["normals"], np.float32)
    if "colors" in cloud:
        parts["colors"] = byte_colors(cloud["colors"])
    if "labels" in cloud:
        parts["labels"] = integer_labels(cloud["labels"])
    left = len(parts["points"])
    if left < 2:
        finite = f", of which {left} are finite," if left < n else ""
        raise ValueError(f"it has {n} points{finite} and a cloud takes two or more")
    return LoadedCloud(parts, n - left)


def read_npy(path: Path, columns: Sequence[str] | None) -> Columns:
    values = foreign.array(path)
    if values.dtype.names and values.ndim == 1:
        return {name: values[name] for name in values.dtype.names if values[name].ndim == 1}
    return name_rows(values, columns)


def read_off(path: Path, columns: Sequence[str] | None) -> tuple[Columns, np.ndarray]:
    vertices, faces = parse_off(mesh_rows(path))
    if not len(faces):
        raise ValueError("its faces have no area")
    return dict(zip("xyz", vertices.T)), faces


def mesh_rows(path: Path) -> Iterator[str]:
    """Yield the lines of a text mesh; raise where they would take too much memory."""
    max_rows = foreign.limit() // ROW
    for number, row in enumerate(foreign.text_rows(path), 1):
        if number > max_rows:
            foreign.check_size(path, ROW * number)
        yield row


def read_ply(path: Path, columns: Sequence[str] | None) -> tuple[Columns, np.ndarray | None]:
    vertices, faces = parse_ply(foreign.content(path))
    return vertices, triangles(faces, len(next(iter(vertices.values()), ()))) if faces else None


READERS = {
    ".txt": lambda path, columns: (read_text(path, columns), None),
    ".xyz": lambda path, columns: (read_text(path, columns), None),
    ".npy": lambda path, columns: (read_npy(path, columns), None),
    ".off": read_off,
    ".ply": read_ply,
    ".bin": lambda path, columns: (read_lidar(path), None),
    ".pcd": lambda path, columns: (parse_pcd(foreign.content(path)), None),
    ".las": lambda path, columns: (parse_las(foreign.content(path), path), None),
    ".laz": lambda path, columns: (parse_las(foreign.content(path), path), None),
    ".obj": lambda path, columns: read_model(path),
    ".stl": lambda path, columns: read_model(path),
    ".glb": lambda path, columns: read_model(path),
}
ENDINGS = tuple(READERS)


__getattr__ = old_names(__name__, {"read_labelled": "read_labeled"})
