#!/usr/bin/env python
"""Images per second of the ImageNet training pipeline, on generated JPEGs of ImageNet's usual size.

    ndformer benchmarks/loader
    ndformer benchmarks/loader --workers 0 1 2 4 --images 512

First one process, with one more step at a time; then whole batches from a loader with workers. Each process uses one
thread, and files have been read before, so neither other cores nor the disk count.
"""

import itertools
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

from ndformer.cli.program import new_parser, run
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.stand_ins.strokes import FIGURES, figures

WIDTH, HEIGHT, BATCH = 500, 375, 32
STEPS = [("RandomResizedCrop", dict(size=224)), ("Flip", {}), ("RandAugment", {}), ("PackImage", {})]


def write_images(folder: Path, count: int) -> None:
    """Write a class folder of JPEGs with the detail and file size of photographs, about 110 kB."""
    rng = np.random.default_rng(0)
    home = folder / "train" / "drawn"
    home.mkdir(parents=True)
    for i in range(count):
        picture = Image.fromarray(figures(np.array([i % len(FIGURES)]), list(FIGURES.values()), 256, rng)[0])
        grain = rng.normal(0, 11, (HEIGHT, WIDTH, 1))
        pixels = np.asarray(picture.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)) + grain
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(home / f"{i:05d}.jpg", quality=92)


def build_dataset(folder: Path, steps: int) -> Dataset:
    transforms = [dict(type=name, **options) for name, options in STEPS[:steps]]
    return DATASETS.create(dict(type="ImageFolder", data_root=folder, transforms=transforms))


def sample_rate(dataset: Dataset, seconds: float) -> float:
    """Return the images per second of this process."""
    return rate((dataset[epoch, i] for epoch in itertools.count() for i in range(len(dataset))), seconds, warm=8)


def batch_rate(dataset: Dataset, workers: int, seconds: float) -> float:
    """Return the images per second of a data loader."""
    numbers: list[Any] = [(epoch, i) for epoch in range(500) for i in range(len(dataset))]
    loader = DataLoader(dataset, BATCH, sampler=numbers, num_workers=workers, collate_fn=collate)
    return BATCH * rate(loader, seconds, warm=4 * max(1, workers))  # prefetched batches do not count


def rate(items: Iterable[Any], seconds: float, warm: int) -> float:
    """Return the items per second, after `warm` items."""
    stream = iter(items)
    for _ in range(warm):
        next(stream)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        next(stream)
        count += 1
    return count / (time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--images", type=int, default=128, help="number of files to generate and read (128)")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of worker processes to measure (0 1 2)"
    )
    parser.add_argument("--seconds", type=float, default=10, help="duration of each measurement (10)")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder, args.images)
        files = list(folder.rglob("*.jpg"))
        print(f"{WIDTH} x {HEIGHT} JPEGs of {sum(len(f.read_bytes()) for f in files) / len(files) / 1000:.0f} kB")
        for steps in range(len(STEPS) + 1):
            label = f"+ {STEPS[steps - 1][0]}" if steps else "read and decode"
            print(f"{label:22} {sample_rate(build_dataset(folder, steps), args.seconds):6.0f} images/s", flush=True)
        for workers in args.workers:
            images = batch_rate(build_dataset(folder, len(STEPS)), workers, args.seconds)
            print(f"{f'{workers} workers, batches':22} {images:6.0f} images/s", flush=True)


if __name__ == "__main__":
    run(main)
