"""Train a config: files to report.

    tools/train.py configs/cifar10_pape.py                       as the paper did
    tools/train.py configs/cifar10_pape.py --sample              small, on generated data, in minutes
    tools/train.py configs/cifar10_pape.py --encoding 'PaPE(m=8)' --cfg-options train_cfg.max_epochs=100

Leaves in the work dir: config.py, results.json, curves.png, confusion_matrix.png, best.pth, last.pth.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmengine.config import Config

from ndformer.framework.data import DataError
from ndformer.framework.engine.cli import config_arguments, config_from, run
from ndformer.framework.engine.run import encoding_name, prepare_data, train


def work_dir_of(given: argparse.Namespace, cfg: Config) -> Path:
    """work_dirs/CONFIG, with what was changed about it."""
    name = (
        given.config.stem + (f"_{encoding_name(cfg)}" if given.encoding else "") + ("_sample" if given.sample else "")
    )
    return Path(given.work_dir or cfg.get("work_dir") or f"work_dirs/{name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    config_arguments(parser)
    parser.add_argument("--work-dir", metavar="DIR", help="default: work_dirs/CONFIG")
    parser.add_argument("--resume", action="store_true", help="go on from last.pth in the work dir")
    parser.add_argument("--overwrite", action="store_true", help="start anew where the work dir holds a run already")
    given = parser.parse_args()
    cfg = config_from(given)
    work_dir = work_dir_of(given, cfg)
    if given.resume and not (work_dir / "last.pth").is_file():
        raise DataError(f"nothing to resume in {work_dir}: it has no last.pth. Start without --resume")
    if (work_dir / "last.pth").is_file() and not (given.resume or given.overwrite):
        raise DataError(f"{work_dir} holds a run already: go on with --resume, or choose --work-dir or --overwrite")
    prepare_data(cfg, given.sample)
    train(cfg, work_dir, given.resume)


if __name__ == "__main__":
    run(main)
