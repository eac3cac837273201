"""Look at what a model is given: a sheet of samples after their transforms, with class names.

tools/browse_dataset.py configs/cifar10_pape.py
tools/browse_dataset.py configs/imagenet1k_pape.py --data-root data/imagenet --count 64 --out sheet.png
tools/browse_dataset.py CIFAR10 --data-root data/samples/cifar10 --split test     as it is on disk
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from PIL import Image, ImageDraw

from ndformer.framework.data import DataError, Dataset
from ndformer.framework.registry import DATASETS, UnknownNameError
from ndformer.modalities.image.transforms import PackImage

TILE, CAPTION = 128, 14


def dataset_options(name: str, split: str, data_root: str | None) -> dict[str, Any]:
    """Of a config's file, or of a dataset's name: then without transforms."""
    options: dict[str, Any] = dict(type=name, split=split)
    if name.endswith(".py"):
        cfg = Config.fromfile(name)
        options = dict(cfg[f"{split}_dataloader"].dataset)
        options.setdefault("data_root", cfg.get("data_root"))
    if data_root is not None:
        options["data_root"] = data_root
    if options.get("data_root") is None:
        raise DataError(f"--data-root says where {name} is")
    return options


def sheet(dataset: Dataset, count: int) -> Image.Image:
    """Samples evenly spread over the set, so over its classes, in rows."""
    pack = next((t for t in dataset.transforms if isinstance(t, PackImage)), None)
    numbers = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int).tolist()
    columns = math.ceil(math.sqrt(len(numbers) * 1.6))
    rows = math.ceil(len(numbers) / columns)
    out = Image.new("RGB", (columns * (TILE + 4), rows * (TILE + CAPTION + 4)), "white")
    pen = ImageDraw.Draw(out)
    for place, i in enumerate(numbers):
        left, top = place % columns * (TILE + 4) + 2, place // columns * (TILE + CAPTION + 4) + 2
        sample = dataset[i]
        image = (pack.unpack(sample["inputs"]["image"]) if pack else sample["image"]).convert("RGB")
        scale = TILE / max(image.size)
        resample = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS  # small ones: show the pixels
        image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), resample)
        out.paste(image, (left, top + CAPTION))
        pen.text((left, top), dataset.classes[int(dataset.labels[i])][:21], fill="black")
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="CONFIG|DATASET", help="a config's file, or a dataset's name: CIFAR10 ...")
    parser.add_argument("--split", choices=("train", "val", "test"), default="train")
    parser.add_argument("--data-root", help="where the data is (what the config says)")
    parser.add_argument("--count", type=int, default=32, help="how many samples (32)")
    parser.add_argument("--out", type=Path, default=Path("sheet.png"), help="the picture (sheet.png)")
    given = parser.parse_args(arguments)
    dataset = DATASETS.create(dataset_options(given.name, given.split, given.data_root))
    sheet(dataset, given.count).save(given.out)
    print(given.out)


if __name__ == "__main__":
    try:
        main()
    except (DataError, OSError, UnknownNameError) as error:
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        sys.exit(f"browse_dataset: {error}")
