"""Read datasets with a damaged file: each reader must raise a DataError of one line or return valid samples.

`python -m tests.soak.foreign --kinds "damaged set" --mutations 10000` does so in processes with limits.
"""

import gzip
import pickle
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, STAND_INS


class Reader(NamedTuple):
    type: str
    write: Callable[[Path], None]  # a small dataset
    damaged: str  # the files that are damaged, one at a time


def images(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for name, ending in (("a", "png"), ("a", "jpg"), ("b", "bmp"), ("b", "gif"), ("c", "webp"), ("c", "tif")):
            home = folder / split / name
            home.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (9, 7, 3), dtype=np.uint8)).save(home / f"x.{ending}")


def cifar(folder: Path) -> None:
    rng = np.random.default_rng(0)
    home = folder / "cifar-10-batches-py"
    home.mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        batch = {b"data": rng.integers(0, 256, (3, 3072), dtype=np.uint8), b"labels": [0, 5, 9]}
        (home / name).write_bytes(pickle.dumps(batch, protocol=2))
    names = [f"class{i}" for i in range(10)]
    (home / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))


def mnist(folder: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"images-idx3-ubyte": rng.integers(0, 256, (6, 4, 4), dtype=np.uint8)}
    arrays["labels-idx1-ubyte"] = np.arange(6, dtype=np.uint8)
    for part, pack in (("train", False), ("t10k", True)):
        for name, array in arrays.items():
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}i", *array.shape)
            content = head + array.tobytes()
            path = folder / f"{part}-{name}{'.gz' if pack else ''}"
            path.write_bytes(gzip.compress(content) if pack else content)


def clouds() -> Iterator[tuple[str, str, int, np.ndarray]]:
    rng = np.random.default_rng(0)
    for split, numbers in (("train", (1, 2)), ("test", (3,))):
        for kind in ("box", "chair"):
            for number in numbers:
                yield split, kind, number, rng.normal(size=(12, 6)).astype(np.float32)


def off(folder: Path) -> None:
    for split, kind, number, rows in clouds():
        home = folder / kind / split
        home.mkdir(parents=True, exist_ok=True)
        vertices = "\n".join(" ".join(f"{x:.4f}" for x in row[:3]) for row in rows)
        faces = "\n".join(f"3 {i} {i + 1} {i + 2}" for i in range(10))
        (home / f"{kind}_{number:04d}.off").write_text(f"OFF\n12 10 0\n{vertices}\n{faces}\n")


def h5(folder: Path) -> None:
    import h5py

    (folder / "shape_names.txt").write_text("box\nchair\n")
    for split in ("train", "test"):
        rows = np.stack([rows[:, :3] for of, _, _, rows in clouds() if of == split])
        labels = np.array([[kind == "chair"] for of, kind, _, _ in clouds() if of == split], np.uint8)
        (folder / f"{split}_files.txt").write_text(f"data/{split}0.h5\n")
        with h5py.File(folder / f"{split}0.h5", "w") as file:
            file.create_dataset("data", data=rows, compression="gzip")
            file.create_dataset("label", data=labels)


def scenes(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("train/scene0000_00", "train/scene0001_00", "val/scene0002_00"):
        (folder / name).mkdir(parents=True)
        for file, values in dict(
            coord=rng.normal(size=(12, 3)).astype(np.float32),
            color=rng.integers(0, 256, (12, 3), np.uint8),
            normal=rng.normal(size=(12, 3)),
            segment20=rng.integers(-1, 20, 12),
        ).items():
            np.save(folder / name / f"{file}.npy", values)


def stand_in(name: str, **sizes: int) -> Callable[[Path], None]:
    return lambda folder: STAND_INS.get(name)().write(folder, **sizes)


text = stand_in("modelnet40", train=1, test=1, points=12)
pairs = stand_in("paired", train=1, test=1, points=12)
arc = stand_in("arc", train=1, test=1)
READERS = dict(
    images=Reader("ImageFolder", images, "**/x.*"),
    cifar=Reader("CIFAR10", cifar, "*/*_batch*"),
    mnist=Reader("MNIST", mnist, "*ubyte*"),
    text=Reader("ModelNet40", text, "**/*.txt"),
    off=Reader("ModelNet40", off, "**/*.off"),
    h5=Reader("ModelNet40", h5, "*.h5"),
    scenes=Reader("ScanNet", scenes, "**/*.npy"),
    pairs=Reader("Paired", pairs, "**/*.*"),
    arc=Reader("ArcTasks", arc, "**/*.json"),
)
NUMBERS = [b"nan", b"inf", b"-1", b"0", b"1e400", b"99999999999", b"abc", b"", b"1 2", b"2147483647"]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """One to three kinds of damage, as disks, downloads and people do it."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(data))) if data else 0
        size = int(rng.integers(1, 1 + max(1, min(64, len(data)))))
        kind = rng.integers(9)
        if kind == 0:
            del data[at:]  # truncated
        elif kind == 1:
            data[at : at + size] = rng.bytes(size)
        elif kind == 2:
            data[at : at + size] = bytes(size)
        elif kind == 3:
            del data[at : at + size]
        elif kind == 4:
            data[at:at] = data[at : at + size]
        elif kind == 5 and data:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 6 and data:  # the header, where sizes are
            data[int(rng.integers(min(32, len(data))))] = int(rng.choice([0, 1, 127, 128, 255]))
        elif kind == 7:  # a number between blanks or commas becomes another
            parts = bytes(data).replace(b",", b" ").split(b" ")
            parts[int(rng.integers(len(parts)))] = NUMBERS[int(rng.integers(len(NUMBERS)))]
            data = bytearray((b"," if b"," in data else b" ").join(parts))
        else:
            data.extend(rng.bytes(size))
    return bytes(data)


def attempt(reader: Reader, folder: Path) -> str:
    """ "said" for a sentence, "read" for samples that are right in form; anything else is raised."""
    try:
        for split in ("train", "test"):
            data = DATASETS.create(dict(type=reader.type, data_root=str(folder), split=split, holdout=0.0))
            for i in range(len(data)):
                sample = data[i]
                if "output" in sample:  # grids of ARC
                    sample |= dict(labels=sample["arc"] if sample["output"] is None else sample["output"])
                of_all = np.asarray(sample["labels"]) if "labels" in sample else np.array(sample["label"])
                if of_all.min() < (-1 if "labels" in sample else 0) or of_all.max() >= len(data.classes):
                    raise AssertionError(f"labels {of_all}")
                points = sample.get("points")
                if points is not None and not (points.ndim == 2 and len(points) > 1 and np.isfinite(points).all()):
                    raise AssertionError(f"points {points.shape} or not finite")
    except DataError as error:
        if "\n" in str(error).strip():
            raise AssertionError(f"not one line: {error}") from error
        return "said"
    return "read"


def fuzz(name: str, numbers: Iterable[int], folder: Path) -> Counter[str]:
    """Read a dataset with one damaged file at a time. A number is the seed of its damage."""
    reader, tally = READERS[name], Counter[str]()
    reader.write(folder)
    paths = sorted(folder.glob(reader.damaged))
    for number in numbers:
        rng = np.random.default_rng((0, number))
        path = paths[int(rng.integers(len(paths)))]
        content = path.read_bytes()
        path.write_bytes(mutated(content, rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tally[attempt(reader, folder)] += 1
        except BaseException as error:
            raise AssertionError(f"{name}, number {number}, {path.name}: {type(error).__name__}: {error}") from error
        path.write_bytes(content)
    return tally
