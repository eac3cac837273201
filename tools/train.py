#!/usr/bin/env python
"""Train a config, test the best checkpoint and write a report.

    ndformer train configs/cifar10_pape.py                the full recipe
    ndformer train configs/cifar10_pape.py --sample       small, on generated data, in minutes
    ndformer train configs/cifar10_pape.py --encoding 'PaPE(m=8)' --cfg-options train_cfg.max_epochs=100

    ndformer train imagefolder --weights timm:vit_small_patch16_224.safetensors --encoding PaPE --data-root mine

    torchrun --nproc-per-node 2 tools/train.py CONFIG            several processes, DDP

It writes to the work dir: config.py, config.json (the same as data), train.log (all output), results.json, curves.png,
confusion_matrix.png, report.html (results and pictures on one page), best.pth, last.pth, previous.pth; with --profile
10:20, which records steps 10 to 20, also profile/rank0.json.gz, and it prints the 20 costliest operations.
Exit codes: 0 done; 1 an error, printed as one sentence; 75 stopped by SIGTERM, SIGUSR1, SIGHUP or Ctrl-C after saving
a checkpoint: continue with --resume. A second Ctrl-C ends at once.
"""

import argparse
from functools import partial
from pathlib import Path

from mmengine.config import Config

from ndformer.cli import output
from ndformer.cli.program import (
    config_arguments,
    config_from,
    device_argument,
    new_parser,
    run,
    weights_arguments,
)
from ndformer.framework.engine.building import encoding_name, prepare_data
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.engine.training.throughput import parse_steps
from ndformer.framework.engine.training.work_dir import check_free
from ndformer.framework.system import processes
from ndformer.lab.report import write_after_training


def default_work_dir(args: argparse.Namespace, cfg: Config) -> Path:
    """Return the work dir of the arguments or the config, else work_dirs/CONFIG with the changes in its name.

    CONFIG may be the folder of a run, which --resume continues; a new run of its config has its name.
    """
    run = args.config.parent if args.config.name == saved.DATA else None
    if run is not None and args.resume and not args.work_dir:
        return run
    name = args.config.stem if run is None else run.resolve().name
    name += (f"_{encoding_name(cfg)}" if args.encoding else "") + ("_sample" if args.sample else "")
    return Path(args.work_dir or cfg.get("work_dir") or f"work_dirs/{name}")


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    weights_arguments(parser)
    device_argument(parser)
    parser.add_argument("--work-dir", metavar="DIR", help="default: work_dirs/CONFIG")
    parser.add_argument("--resume", action="store_true", help="continue from last.pth in the work dir")
    parser.add_argument("--allow-config-change", action="store_true", help="--resume with a changed config")
    parser.add_argument("--allow-data-change", action="store_true", help="--resume on changed data")
    parser.add_argument("--overwrite", action="store_true", help="start a new run in a work dir that contains one")
    parser.add_argument("--detect-anomaly", action="store_true", help="slow; names the operation that computes a NaN")
    parser.add_argument("--profile", metavar="FIRST:LAST", help="record these steps with torch.profiler, such as 10:20")
    parser.add_argument("--no-report", action="store_true", help="write no report.html and no pictures for it")
    parser.add_argument("--export", metavar="FILE", type=Path, help="also write the best weights as .safetensors")
    args = parser.parse_args()
    with processes.process_group():  # first, so that all processes see an error of one
        cfg = config_from(args)
        if args.detect_anomaly:
            cfg.train_cfg.detect_anomaly = True
        if args.export is not None:
            exported.can_export(args.export)
        work_dir = default_work_dir(args, cfg)
        output.folder(work_dir, "--work-dir")
        profile = None if args.profile is None else parse_steps(args.profile)
        if not processes.is_restarted():
            check_free(work_dir, args.resume, args.overwrite)
        processes.wait()
        if processes.rank() == 0:
            prepare_data(cfg, args.sample)
        processes.wait()
        changes = args.allow_config_change, args.allow_data_change
        report = None if args.no_report else partial(write_after_training, work_dir)
        train(cfg, work_dir, args.resume, *changes, args.overwrite, report, profile)
        if args.export is not None and processes.rank() == 0:
            exported.export(args.export, checkpoint.load(work_dir / checkpoint.BEST))
            print(args.export)


if __name__ == "__main__":
    run(main)
