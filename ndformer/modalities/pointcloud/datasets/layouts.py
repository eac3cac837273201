"""The three ways in which ModelNet lies on disk. Any other set of objects may lie the same way.

resampled   HOME/PREFIX_shape_names.txt, PREFIX_train.txt, PREFIX_test.txt and CLASS/CLASS_0001.txt: x,y,z,nx,ny,nz
meshes      HOME/CLASS/train/CLASS_0001.off, HOME/CLASS/test/CLASS_0002.off: points are spread over them
hdf5        HOME/shape_names.txt, train_files.txt, test_files.txt and *.h5: data (N, n, 3), label (N, 1), perhaps normal

Each knows its classes, lists the records of a split, and reads one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, MissingError, check_labels, nearest
from ndformer.modalities.pointcloud.formats.columns import Cloud
from ndformer.modalities.pointcloud.formats.files import ColumnsError, read_cloud, usable

MANY = 10_000  # names of a list, of which one at least is a file


class Record(NamedTuple):
    number: int  # in its split; of a file's clouds for hdf5
    label: int
    source: Path  # the file that holds it

    @property
    def path(self) -> str:
        """What people call it."""
        return f"{self.source}[{self.number}]" if self.source.suffix == ".h5" else str(self.source)


def find(root: Path, prefix: str, known: Sequence[str] = ()) -> Layout:
    """The layout of a folder, or of the only folder in it that has one. Meshes may be a test set alone, of classes that
    are `known`."""
    layout = layout_of(root, prefix, known)
    if layout is not None:
        return layout
    inside = [p for p in sorted(root.iterdir()) if p.is_dir()] if root.is_dir() else []
    found = [layout for layout in (layout_of(p, prefix, known) for p in inside) if layout is not None]
    if len(found) > 1:
        homes = ", ".join(layout.home.name for layout in found)
        raise DataError(f"{root} holds several datasets: give one of {homes} as data_root")
    if not found:
        raise MissingError(
            f"{root} holds no ModelNet: modelnet40_normal_resampled, the meshes of ModelNet40.zip (from "
            "modelnet.cs.princeton.edu) or modelnet40_ply_hdf5_2048, unpacked, goes there; your own clouds in "
            "train/CLASS/FILES are a CloudFolder",
        )
    return found[0]


def layout_of(home: Path, prefix: str, known: Sequence[str] = ()) -> Layout | None:
    names = sorted(p.name.removesuffix("_shape_names.txt") for p in home.glob("*_shape_names.txt"))
    if names:
        if prefix not in names and len(names) > 1:
            raise DataError(f"{home} lists {' and '.join(names)}, not {prefix}: choose one with the dataset's prefix")
        return Resampled(home, prefix if prefix in names else names[0])
    if next(home.glob("*/train/[!.]*.off"), None):
        return Meshes(home)
    if known and next(home.glob("*/test/[!.]*.off"), None):
        return Meshes(home, known)
    return HDF5(home) if next(home.glob("*.h5"), None) else None


class Resampled:
    def __init__(self, home: Path, prefix: str) -> None:
        self.home, self.prefix = home, prefix
        self.names = home / f"{prefix}_shape_names.txt"
        self.classes = listed(self.names)

    def records(self, split: str) -> list[Record]:
        path = self.home / f"{self.prefix}_{split}.txt"
        labels = {name: label for label, name in enumerate(self.classes)}
        found = []
        for number, name in enumerate(listed(path)):
            kind = name.rpartition("_")[0]  # night_stand_0001 is a night_stand
            if kind not in labels:
                raise DataError(f"{path} lists {name}, but {self.names} has no class '{kind}': get both again")
            found.append(Record(number, labels[kind], foreign.inside(self.home, f"{kind}/{name}.txt")))
            if len(found) == MANY and not any(one.source.is_file() for one in found):
                raise DataError(
                    f"none of the first {MANY} clouds that {path} lists is there, as {found[0].path}: get both"
                )
        return found

    def read(self, record: Record, seed: int) -> Cloud:
        try:
            return read_cloud(record.source, columns="x y z nx ny nz")
        except ColumnsError:
            raise DataError(f"{record.source} has other rows than x,y,z,nx,ny,nz: get the dataset again") from None


class Meshes:
    def __init__(self, home: Path, known: Sequence[str] = ()) -> None:
        self.home = home
        self.classes = list(known) or sorted({p.parent.parent.name for p in home.glob("*/train/[!.]*.off")})
        strange = {p.parent.parent.name for p in home.glob("*/test/[!.]*.off")} - set(self.classes) if known else ()
        if strange:
            raise DataError(f"{home / min(strange)} is no class of the checkpoint{nearest(min(strange), known)}")

    def records(self, split: str) -> list[Record]:
        paths = [
            (label, path)
            for label, name in enumerate(self.classes)
            for path in sorted((self.home / name / split).glob("[!.]*.off"))
        ]
        return [Record(number, label, path) for number, (label, path) in enumerate(paths)]

    def read(self, record: Record, seed: int) -> Cloud:
        return read_cloud(record.source, np.random.default_rng((seed, record.number)))


class HDF5:
    """All of it is read at once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.classes = listed(home / "shape_names.txt")
        self.files: dict[Path, Cloud] = {}

    def records(self, split: str) -> list[Record]:
        found = []
        for name in listed(self.home / f"{split}_files.txt"):  # as data/modelnet40_ply_hdf5_2048/ply_data_train0.h5
            path = self.home / Path(name).name
            self.files[path], labels = self._load(path)
            found += [Record(number, label, path) for number, label in enumerate(labels)]
        return found

    def read(self, record: Record, seed: int) -> Cloud:
        cloud = {name: values[record.number] for name, values in self.files[record.source].items()}
        try:
            return usable(cloud).told(record.path)
        except ValueError as error:
            raise DataError(f"{record.path} is no point cloud ({error}): get the dataset again") from None

    def _load(self, path: Path) -> tuple[Cloud, list[int]]:
        try:
            inside = foreign.tables(path)
            tables = foreign.read_tables(path, [name for name in ("data", "label", "normal") if name in inside])
        except (OSError, ValueError, MemoryError) as error:
            why = " ".join(str(error).split())
            raise DataError(f"{path} cannot be read as an hdf5 file ({why}): get the dataset again") from None
        points, labels = tables.get("data", np.zeros(0)), tables.get("label", np.zeros(0)).reshape(-1)
        normals = tables.get("normal", points)
        if points.ndim != 3 or points.shape[2] != 3 or len(labels) != len(points) or normals.shape != points.shape:
            shapes = ", ".join(f"{name} {values.shape}" for name, values in tables.items())
            raise DataError(
                f"{path} holds {shapes or 'neither data nor label'}, where ModelNet's have data (N, n, 3) and "
                "label (N, 1): get the dataset again"
            )
        if labels.dtype.kind not in "iu":
            raise DataError(f"{path} has labels of {labels.dtype}, not whole numbers: get the dataset again")
        check_labels(labels, len(self.classes), path, "get it and shape_names.txt, which names them, again")
        return dict(points=points) | ({"normals": normals} if "normal" in tables else {}), labels.astype(int).tolist()


Layout = Resampled | Meshes | HDF5


def listed(path: Path) -> list[str]:
    """The lines of a list that a dataset comes with."""
    if not path.is_file():
        raise DataError(f"{path} is missing, which the files beside it belong to: get the dataset again")
    return [line.strip() for line in foreign.lines(path) if line.strip()]
