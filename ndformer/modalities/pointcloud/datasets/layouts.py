"""The three layouts of ModelNet on disk, which other datasets of objects may use too.

resampled   HOME/PREFIX_shape_names.txt, PREFIX_train.txt, PREFIX_test.txt and CLASS/CLASS_0001.txt: x,y,z,nx,ny,nz
meshes      HOME/CLASS/train/CLASS_0001.off, HOME/CLASS/test/CLASS_0002.off: points are sampled on them
hdf5        HOME/shape_names.txt, train_files.txt, test_files.txt and *.h5: data (N, n, 3), label (N, 1), perhaps normal

A layout has classes, lists the records of a split, and reads a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, MissingError, check_labels, nearest
from ndformer.modalities.pointcloud.formats.columns import Cloud
from ndformer.modalities.pointcloud.formats.files import ColumnsError, finite_points, read_cloud

MANY = 10_000  # entries of a list after which at least one file must exist


class Record(NamedTuple):
    number: int  # index in its split; for hdf5, in its file
    label: int
    source: Path  # the file with this cloud

    @property
    def path(self) -> str:
        """Name of the record in messages."""
        return f"{self.source}[{self.number}]" if self.source.suffix == ".h5" else str(self.source)


def find_layout(root: Path, prefix: str, fallback: Sequence[str] = ()) -> Layout:
    """Return the layout of a folder, or of the only subfolder with one.

    Meshes may be a test set alone, with the classes of a checkpoint (`fallback`).
    """
    layout = detect_layout(root, prefix, fallback)
    if layout is not None:
        return layout
    inside = [p for p in sorted(root.iterdir()) if p.is_dir()] if root.is_dir() else []
    layouts = [layout for layout in (detect_layout(p, prefix, fallback) for p in inside) if layout is not None]
    if len(layouts) > 1:
        homes = ", ".join(layout.home.name for layout in layouts)
        raise DataError(f"{root} has several datasets: give one of {homes} as data_root")
    if not layouts:
        raise MissingError(
            f"{root} has no ModelNet: put modelnet40_normal_resampled, the meshes of ModelNet40.zip (from "
            "modelnet.cs.princeton.edu) or modelnet40_ply_hdf5_2048, unpacked, there; for your own clouds in "
            "train/CLASS/FILES, use CloudFolder",
        )
    return layouts[0]


def detect_layout(home: Path, prefix: str, fallback: Sequence[str] = ()) -> Layout | None:
    """Return the layout of exactly this folder, or None."""
    names = sorted(p.name.removesuffix("_shape_names.txt") for p in home.glob("*_shape_names.txt"))
    if names:
        if prefix not in names and len(names) > 1:
            raise DataError(f"{home} lists {' and '.join(names)}, not {prefix}: choose one with the dataset's prefix")
        return Resampled(home, prefix if prefix in names else names[0])
    if next(home.glob("*/train/[!.]*.off"), None):
        return Meshes(home)
    if fallback and next(home.glob("*/test/[!.]*.off"), None):
        return Meshes(home, fallback)
    return HDF5(home) if next(home.glob("*.h5"), None) else None


class Resampled:
    """ModelNet40 resampled to 10,000 points, one text file for each object."""

    def __init__(self, home: Path, prefix: str) -> None:
        self.home, self.prefix = home, prefix
        self.names = home / f"{prefix}_shape_names.txt"
        self.classes = listed(self.names)

    def records(self, split: str) -> list[Record]:
        path = self.home / f"{self.prefix}_{split}.txt"
        labels = {name: label for label, name in enumerate(self.classes)}
        records = []
        for number, name in enumerate(listed(path)):
            kind = name.rpartition("_")[0]  # night_stand_0001 is a night_stand
            if kind not in labels:
                raise DataError(f"{path} lists {name}, but {self.names} has no class '{kind}': get both again")
            records.append(Record(number, labels[kind], foreign.inside(self.home, f"{kind}/{name}.txt")))
            if len(records) == MANY and not any(record.source.is_file() for record in records):
                raise DataError(
                    f"none of the first {MANY} clouds that {path} lists exists, such as {records[0].path}: get both"
                )
        return records

    def read(self, record: Record, seed: int) -> Cloud:
        try:
            return read_cloud(record.source, columns="x y z nx ny nz")
        except ColumnsError:
            raise DataError(f"{record.source} must have rows of x,y,z,nx,ny,nz: get the dataset again") from None


class Meshes:
    """ModelNet as OFF meshes in CLASS/train and CLASS/test."""

    def __init__(self, home: Path, fallback: Sequence[str] = ()) -> None:
        self.home = home
        self.classes = list(fallback) or sorted({p.parent.parent.name for p in home.glob("*/train/[!.]*.off")})
        strange = {p.parent.parent.name for p in home.glob("*/test/[!.]*.off")} - set(self.classes) if fallback else ()
        if strange:
            raise DataError(f"{home / min(strange)} is no class of the checkpoint{nearest(min(strange), fallback)}")

    def records(self, split: str) -> list[Record]:
        records: list[Record] = []
        for label, name in enumerate(self.classes):
            paths = sorted((self.home / name / split).glob("[!.]*.off"))
            records += [Record(number, label, path) for number, path in enumerate(paths, len(records))]
        return records

    def read(self, record: Record, seed: int) -> Cloud:
        return read_cloud(record.source, np.random.default_rng((seed, record.number)))


class HDF5:
    """ModelNet in hdf5 files, which are read into memory at once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.classes = listed(home / "shape_names.txt")
        self.files: dict[Path, Cloud] = {}

    def records(self, split: str) -> list[Record]:
        records = []
        for name in listed(self.home / f"{split}_files.txt"):  # as data/modelnet40_ply_hdf5_2048/ply_data_train0.h5
            path = self.home / Path(name).name
            self.files[path], labels = self._load(path)
            records += [Record(number, label, path) for number, label in enumerate(labels)]
        return records

    def read(self, record: Record, seed: int) -> Cloud:
        cloud = {name: values[record.number] for name, values in self.files[record.source].items()}
        try:
            return finite_points(cloud).checked(record.path)
        except ValueError as error:
            raise DataError(f"{record.path} is no point cloud ({error}): get the dataset again") from None

    def _load(self, path: Path) -> tuple[Cloud, list[int]]:
        try:
            inside = foreign.tables(path)
            tables = foreign.read_tables(path, [name for name in ("data", "label", "normal") if name in inside])
        except (OSError, ValueError, MemoryError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{path} cannot be read as an hdf5 file ({reason}): get the dataset again") from None
        points, labels = tables.get("data", np.zeros(0)), tables.get("label", np.zeros(0)).reshape(-1)
        normals = tables.get("normal", points)
        if points.ndim != 3 or points.shape[2] != 3 or len(labels) != len(points) or normals.shape != points.shape:
            shapes = ", ".join(f"{name} {values.shape}" for name, values in tables.items())
            raise DataError(
                f"{path} must have data (N, n, 3) and label (N, 1), as ModelNet has, got {shapes or 'neither'}: "
                "get the dataset again"
            )
        if labels.dtype.kind not in "iu":
            raise DataError(f"{path} must have integer labels, got {labels.dtype}: get the dataset again")
        check_labels(labels, len(self.classes), path, "get it and shape_names.txt, which names them, again")
        return dict(points=points) | ({"normals": normals} if "normal" in tables else {}), labels.astype(int).tolist()


Layout = Resampled | Meshes | HDF5


def listed(path: Path) -> list[str]:
    """Return the non-empty lines of a list file."""
    if not path.is_file():
        raise DataError(f"{path} is missing, which lists the files next to it: get the dataset again")
    return [line.strip() for line in foreign.lines(path) if line.strip()]
