#!/usr/bin/env python
"""Index GEN1, so that it opens at once, and check that all its files can be read.

    python tools/prepare_gen1.py data/gen1

A few megabytes in data/gen1/.ndformer_cache: the moments with boxes of each split, and which event of its recording is
the last one before each. Events stay where they are. Nothing needs it: without it, or where files have changed
since, the same is found from the boxes while training begins. Exit code 1 where a file cannot be read.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.programs.cli import new_parser, run
from ndformer.framework.engine.training.progress import clock
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import rewritable
from ndformer.modalities.events.datasets.gen1.boxes import CLASSES, Moment, moments, recordings
from ndformer.modalities.events.datasets.gen1.index import located, stamps, write_index


def prepare(home: Path) -> list[str]:
    """One split; what is wrong with its recordings, which then has no index."""
    pairs = recordings(home)
    stamp, begin = stamps(pairs), time.perf_counter()
    found: list[list[Moment]] = []
    wrong: list[str] = []
    for number, (recording, boxes) in enumerate(pairs, 1):
        try:
            found.append(located(moments(recording, boxes, home.name == "train")))
            if any(moment.stop == 0 for moment in found[-1]):
                wrong.append(f"{recording} has no events before its first boxes: get it again")
        except DataError as error:
            wrong.append(str(error))
        if sys.stderr.isatty() and number % 20 == 0:
            left = clock((time.perf_counter() - begin) / number * (len(pairs) - number))
            print(
                f"\r{home.name}: {number} of {len(pairs)}, left {left} ",
                end="",
                file=rewritable(sys.stderr),
                flush=True,
            )
    if wrong:
        print(f"{home.name}: {len(wrong)} of {len(pairs)} recordings cannot be used")
        return wrong
    path = write_index(home, pairs, found, stamp)
    labels = np.concatenate([np.zeros(0, np.int64), *(moment.labels for some in found for moment in some)])
    boxes = ", ".join(f"{n:,} {name}s" for name, n in zip(CLASSES, np.bincount(labels, minlength=len(CLASSES))))
    count, size = sum(map(len, found)), path.stat().st_size / 1e6
    print(f"{home.name}: {len(pairs):,} recordings, {count:,} moments with {boxes}; {path}, {size:.1f} MB")
    return []


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("home", metavar="GEN1", type=Path, help="the folder with train/, val/ and test/")
    home = parser.parse_args(arguments).home
    there = [home / split for split in SPLITS if (home / split).is_dir()]
    if not there:
        raise DataError(f"{home} has none of the folders {', '.join(SPLITS)}: give the one with GEN1's recordings")
    wrong = [sentence for split in there for sentence in prepare(split)]
    if wrong:
        raise DataError(f"{len(wrong)} recordings cannot be used:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    run(main)
