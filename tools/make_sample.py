"""Write a small generated stand-in for a dataset, in the dataset's own format on disk.

tools/make_sample.py cifar10
tools/make_sample.py cifar10 --out data/cifar10 --seed 1
tools/make_sample.py cifar10 --baselines        also: how far simple statistics get on it
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.engine.samples import make_sample
from ndformer.framework.registry import DATASETS, UnknownNameError
from ndformer.modalities.image.baselines import baselines


def dataset_of(sample: str) -> str:
    """The dataset that reads a sample: cifar10 -> CIFAR10, imagenet1k -> ImageNet."""
    DATASETS.get("CIFAR10")  # all are known after the first look-up
    plain = sample.replace("_", "").removesuffix("1k")
    return next(kind for kind in DATASETS.module_dict if kind.lower() == plain)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="DATASET", help="cifar10, mnist, imagenet1k ...")
    parser.add_argument("--out", type=Path, help="the folder to make (data/samples/DATASET)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baselines", action="store_true", help="logistic regression on simple statistics of it")
    given = parser.parse_args(arguments)
    out = given.out or Path("data/samples") / given.name
    make_sample(given.name, out, given.seed)
    print(out)
    if given.baselines:
        reader = dict(type=dataset_of(given.name), data_root=out)
        train, test = (DATASETS.create(reader | dict(split=split)) for split in ("train", "test"))
        for name, accuracy in baselines(train, test):
            print(f"{name:20} {accuracy:6.1%}")


if __name__ == "__main__":
    try:
        main()
    except (UnknownNameError, OSError, RuntimeError) as error:
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        sys.exit(f"make_sample: {error}")
