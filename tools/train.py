#!/usr/bin/env python
"""Train a config, test the best checkpoint and write a report.

    python tools/train.py configs/cifar10_pape.py                as the paper did
    python tools/train.py configs/cifar10_pape.py --sample       small, on generated data, in minutes
    python tools/train.py configs/cifar10_pape.py --encoding 'PaPE(m=8)' --cfg-options train_cfg.max_epochs=100

    python tools/train.py imagefolder --weights timm:vit_small_patch16_224.safetensors --encoding PaPE --data-root mine

    torchrun --nproc-per-node 2 tools/train.py CONFIG            several processes, each with batches of its own

Leaves in the work dir: config.py, config.json (the same as data), train.log (all that was said), results.json,
curves.png, confusion_matrix.png, report.html (all of it on a page, with pictures), best.pth, last.pth, previous.pth.
Exit codes: 0 done; 1 one sentence says why not; 75 stopped by SIGTERM, SIGUSR1, SIGHUP or Ctrl-C and saved: start again
with --resume. A second Ctrl-C ends at once.
"""

import argparse
from functools import partial
from pathlib import Path

from mmengine.config import Config

from ndformer.framework.engine.building import encoding_name, prepare_data
from ndformer.framework.engine.programs import output, rendered
from ndformer.framework.engine.programs.cli import (
    config_arguments,
    config_from,
    device_argument,
    new_parser,
    run,
    weights_arguments,
)
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.engine.training.evaluate import Evaluation
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.engine.training.work_dir import check_free
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.runs import attempted
from ndformer.framework.system import processes
from ndformer.lab import report as studies_report
from ndformer.lab import run_folder


def work_dir_of(given: argparse.Namespace, cfg: Config) -> Path:
    """work_dirs/CONFIG, with what was changed about it."""
    name = (
        given.config.stem + (f"_{encoding_name(cfg)}" if given.encoding else "") + ("_sample" if given.sample else "")
    )
    return Path(given.work_dir or cfg.get("work_dir") or f"work_dirs/{name}")


def report(without: bool, work_dir: Path, cfg: Config, model: TokenModel, loader: Loader, found: Evaluation) -> None:
    """A page of the run. It is no reason to end one: what fails is a warning."""
    if without:
        return
    with attempted(path := work_dir / "report.html"):
        rendered.leave(work_dir, cfg, model, loader, found)
        studies_report.write(path, [run_folder.read(work_dir)])
        print(path)


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    weights_arguments(parser)
    device_argument(parser)
    parser.add_argument("--work-dir", metavar="DIR", help="default: work_dirs/CONFIG")
    parser.add_argument("--resume", action="store_true", help="go on from last.pth in the work dir")
    parser.add_argument("--allow-config-change", action="store_true", help="--resume with another config than before")
    parser.add_argument("--allow-data-change", action="store_true", help="--resume on other data than before")
    parser.add_argument("--overwrite", action="store_true", help="start anew where the work dir holds a run already")
    parser.add_argument("--detect-anomaly", action="store_true", help="slow; names the operation that makes a NaN")
    parser.add_argument("--no-report", action="store_true", help="leave report.html and its pictures out")
    parser.add_argument("--export", metavar="FILE", type=Path, help="the best weights as .safetensors, at the end")
    given = parser.parse_args()
    with processes.process_group():  # first: what is wrong with one of several is told to the others
        cfg = config_from(given)
        if given.detect_anomaly:
            cfg.train_cfg.detect_anomaly = True
        if given.export is not None:
            exported.can_export(given.export)
        work_dir = work_dir_of(given, cfg)
        output.folder(work_dir, "--work-dir")
        if not processes.is_restarted():
            check_free(work_dir, given.resume, given.overwrite)
        processes.wait()
        if processes.rank() == 0:
            prepare_data(cfg, given.sample)
        processes.wait()
        changes = given.allow_config_change, given.allow_data_change
        train(cfg, work_dir, given.resume, *changes, given.overwrite, partial(report, given.no_report, work_dir))
        if given.export is not None and processes.rank() == 0:
            exported.export(given.export, checkpoint.load(work_dir / checkpoint.BEST))
            print(given.export)


if __name__ == "__main__":
    run(main)
