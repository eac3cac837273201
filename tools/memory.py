#!/usr/bin/env python
"""Print how much memory each process of a training needs, by kind: parameters, gradients, optimizer, activations.

ndformer memory imagenet1k_pape --processes 8 --parallel fsdp
ndformer memory mnist_small --sample --measure     beside a few training steps in this process
"""

from collections.abc import Sequence

from ndformer.cli.memory import calculate, measure, prepare
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.training.parallel import Parallel
from ndformer.framework.errors import ConfigError


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("--processes", metavar="N", type=int, default=1, help="GPUs, each with a process (1)")
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], help="whole or sharded weights (the config's)")
    parser.add_argument("--measure", action="store_true", help="also train a few steps in one process")
    args = parser.parse_args(arguments)
    if args.processes < 1:
        raise ConfigError(f"--processes: expected at least 1, got {args.processes}")
    cfg = config_from(args, ("train",))
    prepare_data(cfg, args.sample)
    cfg, model, loader = prepare(cfg)
    parallel = Parallel.from_config(cfg.train_cfg)
    if args.parallel not in (None, parallel.type):
        parallel = Parallel(args.parallel)
    title = f"{parallel.type}, {args.processes} processes"
    columns = {title: calculate(cfg, model, loader, args.processes, parallel)}
    if args.processes > 1:
        columns["one process"] = calculate(cfg, model, loader, 1, Parallel())
    if args.measure:
        columns["measured, one process"] = measure(cfg, model, loader)
    size = next(name for name in ("batch_tokens", "batch_size") if cfg.train_dataloader.get(name))
    print(f"MiB of each process, {size} {cfg.train_dataloader[size]} of each")
    print(" " * 14 + "".join(f"{title:>24}" for title in columns))
    for kind in columns[next(reversed(columns))]:
        row = [f"{sizes[kind] / 2**20:>24.1f}" if kind in sizes else " " * 24 for sizes in columns.values()]
        print(f"{kind:14}" + "".join(row))
    totals = (sum(size for kind, size in sizes.items() if kind != "allocated") for sizes in columns.values())
    print(f"{'sum':14}" + "".join(f"{total / 2**20:>24.1f}" for total in totals))
    if parallel.offload:
        print("offload=True: parameters, gradients and optimizer are in CPU memory")


if __name__ == "__main__":
    run(main)
