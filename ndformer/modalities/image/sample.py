"""Generated stand-ins for the image datasets, each in the dataset's own format on disk, read by the same loaders.

SAMPLES.get("cifar10")(folder, seed=0). The figures are those of drawing.py; a seed always gives the same files.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.registry import SAMPLES
from ndformer.modalities.image.drawing import FIGURES, figures

NAMES = list(FIGURES)


def balanced(count: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """(count,) labels, as many of each class, in random order."""
    return rng.permutation(np.arange(count) % classes)


def write_pickle(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=2))


@SAMPLES.register_module(name="cifar10")
def cifar10(folder: Path, seed: int = 0) -> None:
    """6,000 + 1,000 images that pixel statistics cannot tell apart."""
    rng = np.random.default_rng(seed)
    home = folder / "cifar-10-batches-py"
    write_pickle(home / "batches.meta", dict(label_names=NAMES[:10], num_cases_per_batch=1200, num_vis=3072))
    for name, count in [*((f"data_batch_{i}", 1200) for i in range(1, 6)), ("test_batch", 1000)]:
        labels = balanced(count, 10, rng)
        images = figures(labels, [FIGURES[name] for name in NAMES[:10]], 32, rng)
        write_pickle(home / name, cifar_batch(name, images) | dict(labels=labels.tolist()))


def cifar_batch(name: str, images: np.ndarray) -> dict[str, Any]:
    """What CIFAR's batches hold beside labels: an image is a row of 1024 red, 1024 green and 1024 blue values."""
    names = [f"{name}_{i:05d}.png" for i in range(len(images))]
    return dict(batch_label=name, filenames=names, data=images.transpose(0, 3, 1, 2).reshape(len(images), 3072))
