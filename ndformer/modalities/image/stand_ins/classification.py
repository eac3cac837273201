"""Stand-ins of CIFAR, MNIST, ImageNet and ImageFolder: one figure (strokes.py) per image."""

import gzip
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.image.stand_ins.baselines import baselines
from ndformer.modalities.image.stand_ins.strokes import FIGURES, Line, figures, handwriting

NAMES = list(FIGURES)


def balanced(count: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Return labels (count,), equally many of each class, in random order."""
    return rng.permutation(np.arange(count) % classes)


def draw(labels: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw images (N, size, size, 3) in which class i shows the i-th figure."""
    return figures(labels, list(FIGURES.values()), size, rng)


def shrunk(scale: float, shift: float) -> list[list[Line]]:
    """Return the first ten figures, scaled and shifted to the lower right (upper left for negative values)."""
    fit = lambda line: [(scale * x + shift, scale * y + shift) for x, y in line]
    return [[fit(line) for line in FIGURES[name]] for name in NAMES[:10]]


def save(image: np.ndarray, path: Path, size: tuple[int, int] | None = None) -> None:
    """Write a JPEG, resized to `size` (width, height) if given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(image)
    (picture.resize(size) if size else picture).save(path, "JPEG", quality=90)


def write_pickle(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=2))


def cifar_batch(name: str, images: np.ndarray) -> dict[str, Any]:
    """Return a CIFAR batch without labels: an image is a row of 1024 red, 1024 green and 1024 blue values."""
    names = [f"{name}_{i:05d}.png" for i in range(len(images))]
    return dict(batch_label=name, filenames=names, data=images.transpose(0, 3, 1, 2).reshape(len(images), 3072))


@stand_in(dict(type="CIFAR10"), baselines)
def cifar10(folder: Path, seed: int = 0) -> None:
    """Write 6,000 + 1,000 images of ten figures, which pixel statistics cannot distinguish."""
    rng = np.random.default_rng(seed)
    home = folder / "cifar-10-batches-py"
    write_pickle(home / "batches.meta", dict(label_names=NAMES[:10], num_cases_per_batch=1200, num_vis=3072))
    for name, count in [*((f"data_batch_{i}", 1200) for i in range(1, 6)), ("test_batch", 1000)]:
        labels = balanced(count, 10, rng)
        write_pickle(home / name, cifar_batch(name, draw(labels, 32, rng)) | dict(labels=labels.tolist()))


@stand_in(dict(type="CIFAR100"), baselines)
def cifar100(folder: Path, seed: int = 0) -> None:
    """Write 3,000 + 500 images of a hundred classes: a large figure with a small one at its lower right."""
    rng = np.random.default_rng(seed)
    home = folder / "cifar-100-python"
    fine = [f"{large} with {small}" for large in NAMES[:10] for small in NAMES[:10]]
    coarse = [f"{large} {half}" for large in NAMES[:10] for half in ("one", "two")]
    write_pickle(home / "meta", dict(fine_label_names=fine, coarse_label_names=coarse))
    for name, count in (("train", 3000), ("test", 500)):
        labels = balanced(count, 100, rng)
        large, small = shrunk(0.72, -0.28), shrunk(0.42, 0.68)
        images = figures(labels, [a + b for a in large for b in small], 32, rng)
        both = dict(fine_labels=labels.tolist(), coarse_labels=(labels // 5).tolist())
        write_pickle(home / name, cifar_batch(name, images) | both)


@stand_in(dict(type="MNIST"), baselines)
def mnist(folder: Path, seed: int = 0) -> None:
    """Write 2,000 + 500 digits."""
    rng = np.random.default_rng(seed)
    for part, count in (("train", 2000), ("t10k", 500)):
        labels = balanced(count, 10, rng)
        for name, array in ((f"{part}-images-idx3", handwriting(labels, 28, rng)), (f"{part}-labels-idx1", labels)):
            content = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            content += array.astype(np.uint8).tobytes()
            (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(content, mtime=0))


@stand_in(dict(type="ImageNet"), baselines)
def imagenet1k(folder: Path, seed: int = 0) -> None:
    """Write 400 + 100 larger images of ten synsets, with Kaggle's lists."""
    rng = np.random.default_rng(seed)
    home, synsets = folder / "ILSVRC" / "Data" / "CLS-LOC", [f"n{i:08d}" for i in range(1, 11)]
    size = lambda: (int(rng.integers(160, 257)), int(rng.integers(160, 257)))
    labels = np.arange(400) // 40
    for i, image in enumerate(draw(labels, 192, rng)):
        save(image, home / "train" / synsets[labels[i]] / f"{synsets[labels[i]]}_{i}.JPEG", size())
    labels = balanced(100, 10, rng)
    answers = {f"ILSVRC2012_val_{i:08d}": synsets[label] for i, label in enumerate(labels, start=1)}
    for name, image in zip(answers, draw(labels, 192, rng)):
        save(image, home / "val" / f"{name}.JPEG", size())
    (folder / "LOC_synset_mapping.txt").write_text("".join(f"{s} {name}, drawn\n" for s, name in zip(synsets, NAMES)))
    rows = [f"{name},{synset} 1 1 160 160 \n" for name, synset in answers.items()]
    (folder / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + "".join(rows))


@stand_in(dict(type="ImageFolder"), baselines)
def imagefolder(folder: Path, seed: int = 0) -> None:
    """Write 600 + 100 + 100 images of ten classes."""
    rng = np.random.default_rng(seed)
    for split, count in (("train", 600), ("val", 100), ("test", 100)):
        labels = balanced(count, 10, rng)
        for i, image in enumerate(draw(labels, 48, rng)):
            save(image, folder / split / NAMES[labels[i]] / f"{i:04d}.jpg", (48, 48 + int(rng.integers(17))))
