#!/usr/bin/env python
"""Draw a sheet of samples after their transforms, with class names, boxes or masks.

    ndformer browse_dataset configs/cifar10_pape.py --sample
    ndformer browse_dataset configs/imagenet1k_pape.py --data-root data/imagenet --count 64 --out sheet.png
    ndformer browse_dataset ModelNet40 --data-root data/modelnet40 --split test     as it is on disk

A mixture shows each of its parts.
"""

import argparse
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ndformer.cli import output
from ndformer.cli.program import config_arguments, config_from, new_parser, run
from ndformer.framework.answer import Answer
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.run import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import font, shortened
from ndformer.framework.pictures.samples import parts
from ndformer.framework.pictures.samples import picture as picture_of
from ndformer.framework.registry import ANSWERS, DATASETS
from ndformer.framework.system import atomic

CAPTION = 16  # height of the text above a sample


def sheet(dataset: Dataset, count: int) -> Image.Image:
    """Draw samples, evenly spread over the dataset, in rows; cells are wider if all samples are wide."""
    numbers = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int).tolist()
    samples = [dataset[i] for i in numbers]
    kind: type[Answer] = ANSWERS.get(dataset.answer)
    high = kind.tile
    pictures = [picture_of(sample, dataset.transforms, high) for sample in samples]
    wide = high * max(1, min(picture.shape[1] // picture.shape[0] for picture in pictures))
    columns = min(len(numbers), math.ceil(math.sqrt(len(numbers) * 1.6 * high / wide)))
    rows = math.ceil(len(numbers) / columns)
    out = Image.new("RGB", (columns * (wide + 4), rows * (high + CAPTION + 4)), "white")
    pen = ImageDraw.Draw(out)
    for place, (i, picture) in enumerate(zip(numbers, pictures)):
        left, top = place % columns * (wide + 4) + 2, place // columns * (high + CAPTION + 4) + 2
        truth = samples[place].get("data_sample", samples[place])
        i = truth.get("index", i)  # with skip_bad, another sample may replace a bad one
        out.paste(kind.annotated(picture, truth, dataset.classes, (high, wide)), (left, top + CAPTION))
        has_name = kind.captioned == "name"
        name = Path(dataset.name(i)).stem if has_name else dataset.classes[int(dataset.labels[i])]
        pen.text((left, top), shortened(name, wide, 11), fill="black", font=font(11))
    return out


def sheets(parts: dict[str, Dataset], count: int) -> Image.Image:
    """Draw the sheets of several datasets below each other, each with its name."""
    images = {name: sheet(part, count) for name, part in parts.items()}
    if len(images) == 1:
        return next(iter(images.values()))
    size = max(image.width for image in images.values()), sum(image.height + 26 for image in images.values())
    out, top = Image.new("RGB", size, "white"), 0
    for name, image in images.items():
        ImageDraw.Draw(out).text((2, top + 4), name, fill="black", font=font(15))
        out.paste(image, (0, top + 26))
        top += image.height + 26
    return out


def build_dataset(args: argparse.Namespace) -> Dataset:
    """Build the dataset of a config, or one by its registered name, without transforms."""
    if args.config.suffix == ".py" or args.config.exists():
        cfg = config_from(args, [args.split])
        prepare_data(cfg, args.sample)
        return build_loader(cfg, args.split).data
    name = str(args.config)
    kind = DATASETS.get(name)
    if args.sample or args.encoding or args.cfg_options:
        raise DataError(
            f"--sample, --encoding and --cfg-options: expected a config, got the dataset {name}. Give a config"
        )
    if args.data_root is None:
        raise DataError(
            f"--data-root: expected the folder of {name}, got none. ndformer make_sample generates a small one"
        )
    dataset = DATASETS.create(
        dict(type=name, split=args.split, data_root=args.data_root, transforms=kind.preview_transforms)
    )
    if len(dataset) == 0:
        raise DataError(f"{name} has no {args.split} samples under {args.data_root}")
    return dataset


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    parser.add_argument("--split", choices=("train", "val", "test"), default="train", help="samples of it (train)")
    parser.add_argument("--count", type=int, default=32, help="number of samples (32)")
    parser.add_argument("--out", type=Path, default=Path("sheet.png"), help="picture to write (sheet.png)")
    args = parser.parse_args()
    if args.count < 1:
        raise DataError(f"--count: expected 1 or more, got {args.count}")
    output.ready(args.out, (".png", ".jpg", ".pdf"))
    sheet = sheets(parts(build_dataset(args)), args.count)
    with atomic.replacing(args.out) as half:
        sheet.save(half)
    print(args.out)


if __name__ == "__main__":
    run(main)
