#!/usr/bin/env python
"""Write a small generated dataset in the format of the real one.

python tools/make_sample.py cifar10
python tools/make_sample.py cifar10 --out data/cifar10 --seed 1
python tools/make_sample.py cifar10 --baselines        also: how far simple statistics get on it
python tools/make_sample.py modelnet40 --baselines     also: how far extents and moments get on it
python tools/make_sample.py coco --baselines    also: mAP50 of the mean boxes of training; gen1's likewise
python tools/make_sample.py ucf101 --baselines  also: how far frames get without their order; dvsgesture: events
python tools/make_sample.py ade20k --baselines  also: mIoU of the most common class
"""

from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.data.stand_ins import make_sample
from ndformer.framework.engine.programs.cli import new_parser, run
from ndformer.framework.registry import DATASETS


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("name", metavar="DATASET", help="cifar10, imagenet1k, modelnet40, paired ...")
    parser.add_argument("--out", type=Path, help="the folder to make (data/samples/DATASET)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baselines", action="store_true", help="what simple statistics of it get")
    given = parser.parse_args(arguments)
    out = given.out or Path("data/samples") / given.name
    stand_in = make_sample(given.name, out, given.seed)
    print(out)
    if given.baselines:
        read = stand_in.dataset | dict(data_root=out)
        train, test = (DATASETS.create(read | dict(split=split)) for split in ("train", "test"))
        for name, value in stand_in.baselines(train, test):
            print(f"{name:34} {value:6.1%}")


if __name__ == "__main__":
    run(main)
