"""Write a small generated stand-in for a dataset, in the dataset's own format on disk.

tools/make_sample.py cifar10
tools/make_sample.py cifar10 --out data/cifar10 --seed 1
tools/make_sample.py cifar10 --baselines        also: how far simple statistics get on it
tools/make_sample.py modelnet40 --baselines     also: how far extents and moments get on it
tools/make_sample.py coco --baselines           also: mAP50 of the mean boxes of training; gen1's likewise
tools/make_sample.py ucf101 --baselines         also: how far frames get without their order; dvsgesture: events
tools/make_sample.py ade20k --baselines         also: mIoU of the most common class
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.data.stand_ins import make_sample
from ndformer.framework.errors import UnknownNameError
from ndformer.framework.registry import DATASETS

FOLDERS = dict(ade20k=dict(type="MaskFolder", zero_is_nothing=True))  # read by datasets of other names


def dataset_of(sample: str) -> str:
    """The dataset that reads a sample: cifar10 -> CIFAR10, imagenet1k -> ImageNet, modelnet40_off -> ModelNet40."""
    DATASETS.get("CIFAR10")  # all are known after the first look-up
    plain = sample.replace("_", "")
    found = [kind for kind in DATASETS.module_dict if plain.startswith(kind.lower())]
    if not found:
        raise UnknownNameError(f"no dataset is named after the sample '{sample}', so --baselines cannot read it")
    return max(found, key=len)


def baselines_of(dataset: str) -> Any:
    """baselines(train, test): of the module that a dataset names, beside its own; else of `baselines`."""
    kind = DATASETS.get(dataset)
    package, name = ".".join([*kind.__module__.split(".")[:3], "stand_ins"]), kind.baselines
    return importlib.import_module(f"{package}.{name}").baselines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="DATASET", help="cifar10, imagenet1k, modelnet40, paired ...")
    parser.add_argument("--out", type=Path, help="the folder to make (data/samples/DATASET)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baselines", action="store_true", help="what simple statistics of it get")
    given = parser.parse_args(arguments)
    out = given.out or Path("data/samples") / given.name
    make_sample(given.name, out, given.seed)
    print(out)
    if given.baselines:
        reader = FOLDERS.get(given.name) or dict(type=dataset_of(given.name))
        train, test = (DATASETS.create(reader | dict(data_root=out, split=split)) for split in ("train", "test"))
        for name, value in baselines_of(str(reader["type"]))(train, test):
            print(f"{name:34} {value:6.1%}")


if __name__ == "__main__":
    try:
        main()
    except (UnknownNameError, OSError, RuntimeError) as error:
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        sys.exit(f"make_sample: {error}")
