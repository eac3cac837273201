#!/usr/bin/env python
"""Draw a sheet of samples after their transforms, with class names, boxes or masks.

python tools/browse_dataset.py configs/cifar10_pape.py --sample
python tools/browse_dataset.py configs/imagenet1k_pape.py --data-root data/imagenet --count 64 --out sheet.png
python tools/browse_dataset.py ModelNet40 --data-root data/modelnet40 --split test     as it is on disk

A mixture shows each of its parts.
"""

import argparse
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ndformer.framework.answer import Answer
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, new_parser, run
from ndformer.framework.engine.run import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import font, shortened
from ndformer.framework.pictures.samples import parts
from ndformer.framework.pictures.samples import picture as picture_of
from ndformer.framework.registry import ANSWERS, DATASETS
from ndformer.framework.system import atomic

CAPTION = 16  # the height of what is written above a sample


def sheet(dataset: Dataset, count: int) -> Image.Image:
    """Samples evenly spread over the set, so over its classes, in rows; wider cells where all of them are wide."""
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
        held = samples[place].get("data_sample", samples[place])
        out.paste(kind.annotated(picture, held, dataset.classes, (high, wide)), (left, top + CAPTION))
        named = kind.captioned == "name"
        name = Path(dataset.name(i)).stem if named else dataset.classes[int(dataset.labels[i])]
        pen.text((left, top), shortened(name, wide, 11), fill="black", font=font(11))
    return out


def sheets(parts: dict[str, Dataset], count: int) -> Image.Image:
    """Of several datasets, below each other, each below its name."""
    drawn = {name: sheet(part, count) for name, part in parts.items()}
    if len(drawn) == 1:
        return next(iter(drawn.values()))
    size = max(one.width for one in drawn.values()), sum(one.height + 26 for one in drawn.values())
    out, top = Image.new("RGB", size, "white"), 0
    for name, one in drawn.items():
        ImageDraw.Draw(out).text((2, top + 4), name, fill="black", font=font(15))
        out.paste(one, (0, top + 26))
        top += one.height + 26
    return out


def dataset_of(given: argparse.Namespace) -> Dataset:
    """Of a config, or by its name: then without transforms."""
    if given.config.suffix == ".py" or given.config.exists():
        cfg = config_from(given, [given.split])
        prepare_data(cfg, given.sample)
        return build_loader(cfg, given.split).data
    name = str(given.config)
    kind = DATASETS.get(name)
    if given.sample or given.encoding or given.cfg_options:
        raise DataError(f"{name} names a dataset; --sample, --encoding and --cfg-options are for a config of it")
    if given.data_root is None:
        raise DataError(f"--data-root says where {name} is; tools/make_sample.py makes a small one")
    dataset = DATASETS.create(
        dict(type=name, split=given.split, data_root=given.data_root, transforms=kind.preview_transforms)
    )
    if len(dataset) == 0:
        raise DataError(f"{name} has no {given.split} samples under {given.data_root}")
    return dataset


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    parser.add_argument("--split", choices=("train", "val", "test"), default="train")
    parser.add_argument("--count", type=int, default=32, help="how many samples (32)")
    parser.add_argument("--out", type=Path, default=Path("sheet.png"), help="the picture (sheet.png)")
    given = parser.parse_args()
    if given.count < 1:
        raise DataError(f"--count is 1 or more, got {given.count}")
    output.ready(given.out, (".png", ".jpg", ".pdf"))
    sheet = sheets(parts(dataset_of(given)), given.count)
    with atomic.whole(given.out) as half:
        sheet.save(half)
    print(given.out)


if __name__ == "__main__":
    run(main)
