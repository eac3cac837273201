"""One cloud from one file, or from the folder of a scene: what data sets, predict, peek and show_tokens all read.

Every way that a file can be wrong is one sentence.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.columns import (
    Cloud,
    Columns,
    UnnamedError,
    cloud_of,
    in_bytes,
    name_rows,
    settled,
    split_names,
    whole,
)
from ndformer.modalities.pointcloud.formats.las import parse_las
from ndformer.modalities.pointcloud.formats.lidar_bin import read_lidar
from ndformer.modalities.pointcloud.formats.meshes import parse_off, spread, triangles, vertex_normals
from ndformer.modalities.pointcloud.formats.models import read_model
from ndformer.modalities.pointcloud.formats.pcd import parse_pcd
from ndformer.modalities.pointcloud.formats.ply import parse_ply
from ndformer.modalities.pointcloud.formats.scene import PLACES, read_scene
from ndformer.modalities.pointcloud.formats.text import read_text

DAMAGE = (ValueError, ArithmeticError, OSError, EOFError, MemoryError)
ROW = 128  # bytes of memory that a line of a mesh takes
SPREAD = 10_000  # points on a mesh, as many as ModelNet's resampled clouds have
REMEDY = "name them with the data set's `columns`, as 'x y z - r g b', where - is passed over"
OPTION = "--cfg-options \"test_dataloader.dataset.columns='x y z - r g b'\""


class ColumnsError(DataError):
    """A table of which nobody says what stands in its columns."""


class Found(NamedTuple):
    cloud: Cloud
    left_out: int  # points with a number that is not finite
    mesh: bool = False  # its points were spread over it

    def told(self, who: object) -> Cloud:
        """The cloud, and a warning where points are left out of it."""
        if self.left_out:
            warnings.warn(f"{who}: {self.words}", stacklevel=4)
        return self.cloud

    @property
    def words(self) -> str:
        points = self.left_out + len(self.cloud["points"])
        return f"{self.left_out} of its {points} points have numbers that are not finite, and are left out"


def read_cloud(path: Path, rng: np.random.Generator | None = None, columns: str | None = None) -> Cloud:
    """Points, from meshes (with `rng`) spread evenly over their area; normals and colours 0..255 where there are some.

    `columns` names those of text and arrays: "x y z r g b", and - for one to be passed over. Where it does not, nor a
    header, six are taken for a place and a normal or a colour, whichever they can be."""
    cloud = look(path, rng, columns).told(path)
    return {name: values for name, values in cloud.items() if name != "labels"}


def read_labelled(path: Path, labels: str, columns: str | None = None) -> Cloud:
    """The same with `labels` (n,) where there are some: in a folder, of the file of that name; in a file, of the column
    that is called like it, or as usual."""
    return look(path, None, columns, labels).told(path)


def look(
    path: Path, rng: np.random.Generator | None = None, columns: str | None = None, labels: str | None = None
) -> Found:
    """What there is in a file or a scene's folder."""
    if path.suffix.lower() not in READERS and not path.is_dir():
        raise DataError(
            f"{path} is no point cloud by its name: known are {', '.join(ENDINGS)}, and folders with a {PLACES}"
        )
    try:
        if path.is_dir():
            return usable(read_scene(path, labels))
        if path.stat().st_size == 0:
            raise ValueError("it is empty")
        with np.errstate(all="ignore"):  # what overflows is found below
            table, faces = READERS[path.suffix.lower()](path, None if columns is None else split_names(columns))
            cloud = cloud_of(table, labels and Path(labels).stem)
            if faces is None or not len(faces):
                return usable(cloud)
            return of_mesh(cloud, faces, rng or np.random.default_rng(0))
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except UnnamedError as error:
        raise ColumnsError(f"{path} {error}: {REMEDY}", OPTION) from None
    except DAMAGE as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} cannot be read as a point cloud ({reason}): replace it or take it away") from None


def of_mesh(cloud: Cloud, faces: np.ndarray, rng: np.random.Generator) -> Found:
    """Points spread over it; but the vertices of a scan, which are labelled, or coloured and many."""
    points = cloud["points"].astype(np.float64)
    if "labels" in cloud or ("colours" in cloud and len(points) >= SPREAD):
        return usable(dict(normals=vertex_normals(points, faces)) | cloud)
    colours = [in_bytes(cloud["colours"])] if "colours" in cloud else []
    (points, *colours), normals = spread(points, faces, SPREAD, rng, *colours)
    found = usable(dict(points=points, normals=normals) | dict(zip(["colours"], colours)))
    return found._replace(mesh=True)


def usable(cloud: Cloud) -> Found:
    """The points that can be worked with, if there are enough of them."""
    n = len(cloud["points"])
    places = [values for name, values in cloud.items() if name != "labels"]
    with np.errstate(over="ignore"):
        kept = np.all([np.isfinite(values.astype(np.float32)).all(1) for values in places], 0)
    if not kept.all():
        cloud = {name: values[kept] for name, values in cloud.items()}
    found = dict(points=settled(cloud["points"]))
    if "normals" in cloud:
        found["normals"] = np.ascontiguousarray(cloud["normals"], np.float32)
    if "colours" in cloud:
        found["colours"] = in_bytes(cloud["colours"])
    if "labels" in cloud:
        found["labels"] = whole(cloud["labels"])
    check_count(found["points"], n)
    return Found(found, n - int(kept.sum()))


def check_count(points: np.ndarray, before: int) -> None:
    if len(points) < 2:
        finite = f", of which {len(points)} are finite," if len(points) < before else ""
        raise ValueError(f"it holds {before} points{finite} and a cloud takes two or more")


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
    """As many as may be kept at once: a line of two bytes becomes an object of many."""
    most = foreign.limit() // ROW
    for number, row in enumerate(foreign.text_rows(path), 1):
        if number > most:
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
