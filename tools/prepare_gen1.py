#!/usr/bin/env python
"""Index GEN1, so that it opens at once, and check that all its files can be read.

    ndformer prepare_gen1 data/gen1

It writes a few megabytes to data/gen1/.ndformer_cache: the times with boxes of each split, and the last event before
each. Events stay in their files. The index is optional: without it, or if files have changed, it is computed at the
start of training. Exit code 1 if a file cannot be read.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.cli.program import new_parser, run
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.training.progress import clock
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import rewritable
from ndformer.modalities.events.datasets.gen1.boxes import CLASSES, Moment, moments, recordings
from ndformer.modalities.events.datasets.gen1.index import located, stamps, write_index


def prepare(home: Path) -> list[str]:
    """Index one split; return the errors of its recordings, with which no index is written."""
    pairs = recordings(home)
    stamp, begin = stamps(pairs), time.perf_counter()
    found: list[list[Moment]] = []
    wrong: list[str] = []
    for number, (recording, boxes) in enumerate(pairs, 1):
        try:
            found.append(located(moments(recording, boxes, home.name == "train")))
            if any(moment.stop == 0 for moment in found[-1]):
                wrong.append(f"{recording} has no events before its first boxes: download it again")
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
    labels = np.concatenate([np.zeros(0, np.int64), *(moment.labels for group in found for moment in group)])
    boxes = ", ".join(f"{n:,} {name}s" for name, n in zip(CLASSES, np.bincount(labels, minlength=len(CLASSES))))
    count, size = sum(map(len, found)), path.stat().st_size / 1e6
    print(f"{home.name}: {len(pairs):,} recordings, {count:,} moments with {boxes}; {path}, {size:.1f} MB")
    return []


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("home", metavar="GEN1", type=Path, help="folder with train/, val/ and test/")
    home = parser.parse_args(arguments).home
    splits = [home / split for split in SPLITS if (home / split).is_dir()]
    if not splits:
        raise DataError(f"{home}: expected one of the folders {', '.join(SPLITS)}, got none. Give the folder of GEN1")
    wrong = [sentence for split in splits for sentence in prepare(split)]
    if wrong:
        raise DataError(f"{len(wrong)} recordings cannot be used:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    run(main)
