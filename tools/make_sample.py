"""Write a small generated stand-in for a dataset, in the dataset's own format on disk.

tools/make_sample.py cifar10
tools/make_sample.py cifar10 --out data/cifar10 --seed 1
tools/make_sample.py cifar10 --baselines        also: how far simple statistics get on it
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.registry import DATASETS, SAMPLES, UnknownNameError
from ndformer.modalities.image.baselines import baselines


def make_sample(name: str, out: Path, seed: int = 0) -> None:
    """Complete or not at all: written beside `out` first, then renamed. Never into a folder that holds something."""
    write = SAMPLES.get(name)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} is not empty: name another folder with --out, or take it away")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as beside:
        partial = Path(beside) / out.name
        partial.mkdir()
        write(partial, seed)
        partial.replace(out)


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
        kind = next(
            kind for kind in DATASETS.module_dict if kind.lower() == given.name.replace("_", "").removesuffix("1k")
        )
        train, test = (DATASETS.create(dict(type=kind, data_root=out, split=split)) for split in ("train", "test"))
        for name, accuracy in baselines(train, test):
            print(f"{name:20} {accuracy:6.1%}")


if __name__ == "__main__":
    try:
        main()
    except (UnknownNameError, OSError, RuntimeError) as error:
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        sys.exit(f"make_sample: {error}")
