#!/usr/bin/env python
"""How fast are samples read from shards, against the folder that was packed? Microseconds of CPU time per sample.

    ndformer pack_shards imagefolder data/shards --data-root data/photos
    ndformer benchmarks/shards data/photos data/shards

Batches of training samples are read as a data loader reads them, from both in turn, without transforms other than the
decoding of images. The fastest of several rounds counts for each batch, so files are in the page cache and other
programs disturb little. In the first reading nothing is remembered; later ones are as in later epochs.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from ndformer.cli.program import new_parser, run
from ndformer.framework.data.dataset import create
from ndformer.framework.data.shards.dataset import Shards
from ndformer.framework.foreign import mounts

BATCH = 32


def seconds(data: Any, batch: list[tuple[int, int]], is_first: bool) -> float:
    if is_first:
        mounts._member.cache_clear()
        if isinstance(data, Shards):
            data.records.cache.clear()
    fetcher = _MapDatasetFetcher(data, True, len, False)
    begin = time.process_time()
    fetcher.fetch(batch)
    return time.process_time() - begin


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the data")
    parser.add_argument("shards", metavar="SHARDS", type=Path, help="the same data, packed")
    parser.add_argument("--type", default="ImageFolder", help="of the dataset (ImageFolder)")
    parser.add_argument("--samples", type=int, default=640, help="to read (640)")
    parser.add_argument("--rounds", type=int, default=9, help="(9)")
    args = parser.parse_args(arguments)
    folder, shards = (create(dict(type=args.type, data_root=root), 0) for root in (args.folder, args.shards))
    order = np.random.default_rng(0).permutation(len(folder))[: args.samples].tolist()
    batches = [[(0, i) for i in order[start : start + BATCH]] for start in range(0, len(order), BATCH)]
    print("| reading | folder, us | shards, us | folder / shards |\n|---|--:|--:|--:|")
    for name in ("first", "later"):
        rounds = [
            [[seconds(d, b, name == "first") for d in (folder, shards)] for b in batches] for _ in range(args.rounds)
        ]
        before, after = np.array(rounds).min(0).sum(0) / len(order) * 1e6  # (rounds, batches, 2)
        print(f"| {name} | {before:.0f} | {after:.0f} | {before / after:.2f} |", flush=True)


if __name__ == "__main__":
    run(main)
