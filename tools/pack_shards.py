#!/usr/bin/env python
"""Pack the datasets of a config into tar shards, which large or network disks read much faster than many small files.

    ndformer pack_shards configs/imagefolder_pape.py data/shards --shards 64 --jobs 8 --data-root data/photos
    ndformer train configs/imagefolder_pape.py --data-root data/shards

Shards have WebDataset's layout and hold the files as they are. An interrupted call continues where it stopped. The
parts of a mixture go to OUT/PART. docs/how-to/pack-shards.md
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ndformer.cli.program import config_arguments, config_from, new_parser, run
from ndformer.cli.shards import Packer
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import SPLITS, Dataset, create, rooted
from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config.data_root import mixture_parts
from ndformer.framework.engine.training.leakage import check_leakage
from ndformer.framework.foreign import rewritable
from ndformer.framework.registry import TRANSFORMS

LOADED = ("type", "data_root", "split", "transforms", "cache", "cache_limit")  # not options of the packed data


def show(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} shards ", end=end, file=rewritable(sys.stderr), flush=True)


def token_counter(cfg: Any) -> Callable[[Dataset, int], int]:
    """Return a function that counts the tokens of a sample, with the transforms of the test loader."""
    model = build_model(calibrate(cfg)[0]).eval()
    transforms = [TRANSFORMS.create(options) for options in cfg.test_dataloader.dataset.get("transforms", ())]

    def count(data: Dataset, i: int) -> int:
        sample = data.decoded(i) | dict(index=i)
        for transform in transforms:
            sample = transform(sample, np.random.default_rng(0))
        with torch.no_grad():
            return model.tokens(model.to_device(collate([sample]))["inputs"]).features.shape[1]

    return count


def pack(cfg: Any, loaders: dict[str, dict[str, Any]], out: Path, count: int, jobs: int) -> None:
    """Pack the dataset configs of all splits into one folder."""
    configs = {split: {k: v for k, v in dataset.items() if k != "transforms"} for split, dataset in loaders.items()}
    datasets = {split: create(dict(split=split) | config, cfg.seed) for split, config in configs.items()}
    check_leakage(cfg, datasets)
    options = {split: {k: v for k, v in config.items() if k not in LOADED} for split, config in configs.items()}
    counter = token_counter(cfg) if cfg.train_dataloader.get("batch_tokens") else None
    shards = Packer(datasets, options, out).pack(count, jobs, show, counter)
    size = sum((out / name).stat().st_size for name in shards) / 1e6
    counts = ", ".join(f"{len(data)} {split}" for split, data in datasets.items())
    print(f"{out}: {len(shards)} shards, {size:,.1f} MB; {counts} samples. Train with --data-root {out}")


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    parser.add_argument("out", metavar="OUT", type=Path, help="folder of the shards")
    parser.add_argument("--shards", type=int, default=16, help="number of shards of the largest split; default: 16")
    parser.add_argument("--jobs", type=int, default=4, help="shards that are written at the same time; default: 4")
    args = parser.parse_args()
    if args.shards < 1 or args.jobs < 1:
        parser.error("--shards and --jobs must be at least 1")
    cfg = config_from(args, SPLITS)
    prepare_data(cfg, args.sample)
    loaders = {split: rooted(cfg[f"{split}_dataloader"].dataset.to_dict(), cfg.get("data_root")) for split in SPLITS}
    parts = {split: mixture_parts(dataset) for split, dataset in loaders.items()}
    if not any(parts.values()):
        pack(cfg, loaders, args.out, args.shards, args.jobs)
    for name in parts["train"]:
        roots = {split: rooted(parts[split][name], loaders[split].get("data_root")) for split in SPLITS}
        pack(cfg, roots, args.out / name, args.shards, args.jobs)


if __name__ == "__main__":
    run(main)
