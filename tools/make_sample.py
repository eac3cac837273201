#!/usr/bin/env python
"""Write a small generated dataset in the format of the real one.

ndformer make_sample cifar10
ndformer make_sample cifar10 --out data/cifar10 --seed 1
ndformer make_sample cifar10 --baselines        also the accuracy of simple statistics
ndformer make_sample modelnet40 --baselines     also the accuracy of extents and moments
ndformer make_sample coco --baselines    also mAP50 of the mean training boxes; the same for gen1
ndformer make_sample ucf101 --baselines  also the accuracy without the order of frames; dvsgesture: of events
ndformer make_sample ade20k --baselines  also mIoU of the most common class
"""

from collections.abc import Sequence
from pathlib import Path

from ndformer.cli.program import new_parser, run
from ndformer.framework.data.stand_ins import make_sample
from ndformer.framework.registry import DATASETS


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("name", metavar="DATASET", help="cifar10, imagenet1k, modelnet40, paired ...")
    parser.add_argument("--out", type=Path, help="folder to write (data/samples/DATASET)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated samples (0)")
    parser.add_argument("--baselines", action="store_true", help="print the accuracy of simple statistics")
    args = parser.parse_args(arguments)
    out = args.out or Path("data/samples") / args.name
    stand_in = make_sample(args.name, out, args.seed)
    print(out)
    if args.baselines:
        read = stand_in.dataset | dict(data_root=out)
        train, test = (DATASETS.create(read | dict(split=split)) for split in ("train", "test"))
        for name, value in stand_in.baselines(train, test):
            print(f"{name:34} {value:6.1%}")


if __name__ == "__main__":
    run(main)
