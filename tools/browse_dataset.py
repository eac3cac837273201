"""Look at what a model is given: a sheet of samples after their transforms, with class names, boxes or masks.

tools/browse_dataset.py configs/cifar10_pape.py --sample
tools/browse_dataset.py configs/imagenet1k_pape.py --data-root data/imagenet --count 64 --out sheet.png
tools/browse_dataset.py ModelNet40 --data-root data/modelnet40 --split test     as it is on disk

A mixture shows each of its parts.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ndformer.framework.answers import boxes as gallery_boxes
from ndformer.framework.answers import gallery
from ndformer.framework.answers import pixels as gallery_masks
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, run
from ndformer.framework.engine.run import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.samples import parts
from ndformer.framework.pictures.samples import picture as picture_of
from ndformer.framework.registry import DATASETS

TILE, CAPTION, SCENE = 128, 16, 320  # a tile's side, what is written above it, and its side where boxes are drawn


def sheet(dataset: Dataset, count: int) -> Image.Image:
    """Samples evenly spread over the set, so over its classes, in rows; wider cells where all of them are wide."""
    numbers = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int).tolist()
    samples = [dataset[i] for i in numbers]
    held = [sample.get("data_sample", sample) for sample in samples]
    masked, boxed = "mask" in held[0], "boxes" in held[0] and "mask" not in held[0]
    high = SCENE if masked or boxed else TILE
    pictures = [picture_of(sample, dataset.transforms, high) for sample in samples]
    if masked:
        count = len(dataset.classes)
        masks = [np.asarray(one["mask"]) for one in held]
        pictures = [gallery_masks.over(picture, mask, count) for picture, mask in zip(pictures, masks)]
    wide = high * max(1, min(picture.shape[1] // picture.shape[0] for picture in pictures))
    columns = min(len(numbers), math.ceil(math.sqrt(len(numbers) * 1.6 * high / wide)))
    rows = math.ceil(len(numbers) / columns)
    out = Image.new("RGB", (columns * (wide + 4), rows * (high + CAPTION + 4)), "white")
    pen = ImageDraw.Draw(out)
    for place, (i, picture) in enumerate(zip(numbers, pictures)):
        left, top = place % columns * (wide + 4) + 2, place // columns * (high + CAPTION + 4) + 2
        boxes = gallery_boxes.annotated(samples[place], dataset.classes) if boxed else []
        out.paste(gallery_boxes.draw(picture, boxes, high, wide), (left, top + CAPTION))
        name = Path(dataset.name(i)).stem if high == SCENE else dataset.classes[int(dataset.labels[i])]
        pen.text((left, top), gallery.shortened(name, wide, 11), fill="black", font=gallery.font(11))
    return out


def sheets(parts: dict[str, Dataset], count: int) -> Image.Image:
    """Of several datasets, below each other, each below its name."""
    drawn = {name: sheet(part, count) for name, part in parts.items()}
    if len(drawn) == 1:
        return next(iter(drawn.values()))
    size = max(one.width for one in drawn.values()), sum(one.height + 26 for one in drawn.values())
    out, top = Image.new("RGB", size, "white"), 0
    for name, one in drawn.items():
        ImageDraw.Draw(out).text((2, top + 4), name, fill="black", font=gallery.font(15))
        out.paste(one, (0, top + 26))
        top += one.height + 26
    return out


def dataset_of(given: argparse.Namespace) -> Dataset:
    """Of a config, or by its name: then without transforms."""
    if given.config.suffix == ".py" or given.config.exists():
        cfg = config_from(given)
        prepare_data(cfg, given.sample)
        return build_loader(cfg, given.split).data
    name = str(given.config)
    kind = DATASETS.get(name)
    if given.sample or given.encoding or given.cfg_options:
        raise DataError(f"{name} names a dataset; --sample, --encoding and --cfg-options are for a config of it")
    if given.data_root is None:
        raise DataError(f"--data-root says where {name} is; tools/make_sample.py makes a small one")
    own = dict(transforms=kind.shown) if hasattr(kind, "shown") else {}
    dataset = DATASETS.create(dict(type=name, split=given.split, data_root=given.data_root, **own))
    if len(dataset) == 0:
        raise DataError(f"{name} has no {given.split} samples under {given.data_root}")
    return dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    config_arguments(parser)
    parser.add_argument("--split", choices=("train", "val", "test"), default="train")
    parser.add_argument("--count", type=int, default=32, help="how many samples (32)")
    parser.add_argument("--out", type=Path, default=Path("sheet.png"), help="the picture (sheet.png)")
    given = parser.parse_args()
    if given.count < 1:
        raise DataError(f"--count is 1 or more, got {given.count}")
    output.ready(given.out, (".png", ".jpg", ".pdf"))
    sheets(parts(dataset_of(given)), given.count).save(given.out)
    print(given.out)


if __name__ == "__main__":
    run(main)
