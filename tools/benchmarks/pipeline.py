#!/usr/bin/env python
"""Measure whether data loading keeps up with training: tokens per second of both, in alternating rounds.

    ndformer benchmarks/pipeline                             mnist_small on generated data
    ndformer benchmarks/pipeline configs/ucf101_pape.py configs/dvsgesture_pape.py --sample
    ndformer benchmarks/pipeline configs/nmnist_small.py --data-root data/nmnist
    ndformer benchmarks/pipeline configs/lpc_actions.py --data-root data/lpc_actions --threads 2
    ndformer benchmarks/pipeline configs/ucf101_pape.py --batches 1 --threads 2 \\
        --cfg-options train_dataloader.batch_size=2

Loading is the config's training set, through its transforms, in batches, as one worker does it, on one core (a video is
decoded beside it, while it waits). The model makes training steps with those batches on `--threads` cores. Files are
read once before, so the disk does not count. Where the ratio is above 1, one worker is enough.
"""

import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from mmengine.config import Config

from ndformer.cli.program import config_path, new_parser, run
from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import Loader, build_loader
from ndformer.framework.model import TokenModel

WARM = 2  # batches that do not count


def count_tokens(model: TokenModel, batch: dict[str, Any]) -> int:
    """How many the model gets of a batch, class tokens and all, padding not."""
    with torch.no_grad():
        where = model.tokens(batch["inputs"]).where
    rows = len(batch["data_samples"])
    return rows * where.positions.shape[1] if where.valid is None else int(where.valid.sum())


def timed(loader: Loader, model: TokenModel, batches: int, threads: int) -> list[tuple[int, float, float]]:
    """Tokens, seconds of loading and seconds of training of each batch, in turn."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    sampler: Any = loader.batch_sampler
    found = []
    for chosen in itertools.islice(itertools.chain.from_iterable(itertools.repeat(sampler)), batches + WARM):
        for key in chosen:
            loader.data[key]  # once before, so that the disk does not count
        marks = [time.perf_counter()]
        batch: Any = collate([loader.data[key] for key in chosen])
        marks.append(time.perf_counter())
        torch.set_num_threads(threads)
        data = model.to_device(batch)
        loss = model.total(model(**data, mode="loss"))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        marks.append(time.perf_counter())
        torch.set_num_threads(1)
        found.append((count_tokens(model, batch), marks[1] - marks[0], marks[2] - marks[1]))
    return found[WARM:]


def row(cfg: Config, batches: int, threads: int) -> str:
    cfg.train_dataloader.num_workers = 0
    torch.manual_seed(cfg.seed)
    found = timed(build_loader(cfg, "train"), build_model(cfg), batches, threads)
    loading, training = (statistics.median(tokens / times[i] for tokens, *times in found) for i in (0, 1))
    ratio = statistics.median(train / read for _, read, train in found)
    count = statistics.mean(tokens for tokens, *_ in found) / cfg.train_dataloader.batch_size
    return f"| {count:.0f} | {loading:,.0f} | {training:,.0f} | {ratio:.2f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("configs", metavar="CONFIG", nargs="*", type=config_path, help="(mnist_small --sample)")
    parser.add_argument("--sample", action="store_true", help="the small versions, on generated data")
    parser.add_argument("--data-root", metavar="DIR", help="where the data is")
    parser.add_argument(
        "--cfg-options", metavar="KEY=VALUE", nargs="+", action="extend", default=[], help="other values of its keys"
    )
    parser.add_argument("--batches", type=int, default=20, help="to measure (20)")
    parser.add_argument("--threads", type=int, default=1, help="cores of the model (1)")
    args = parser.parse_args(arguments)
    if not args.configs:
        args.configs, args.sample = [config_path("mnist_small")], True
    torch.set_num_threads(1)
    root = [] if args.data_root is None else [f"data_root={args.data_root!r}"]
    print(
        "| config | tokens a sample | loaded a second, one core | trained on a second | ratio |\n|---|--:|--:|--:|--:|"
    )
    for path in args.configs:
        cfg = load(path, root + args.cfg_options, None, args.sample)
        prepare_data(cfg, args.sample)
        print(f"| {path.stem}{' --sample' if args.sample else ''} {row(cfg, args.batches, args.threads)}", flush=True)


if __name__ == "__main__":
    run(main)
