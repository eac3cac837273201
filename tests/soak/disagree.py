"""Start two processes of one run that differ in one setting, in each of thirteen ways.

Both must name the rank that differs and both values, before the first step, soon and without waiting for each other.

python -m tests.soak.disagree                    each way once
python -m tests.soak.disagree --ways seed data   some of them
"""

import argparse
import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import agreement
from ndformer.framework.system import processes
from tests.soak.tiny import SoakSquares, config, ended, register, spawn_ranks, warm

Way = Callable[[Config, dict[str, Any]], object]  # what rank 1 does to its own config and to its arguments of train()


def fewer(cfg: Config, given: dict[str, Any]) -> None:
    _indexed(lambda records, labels: (records[:-8], labels[:-8]))


def swapped(cfg: Config, given: dict[str, Any]) -> None:
    _indexed(lambda records, labels: (records, (labels + 1) % 3))


def renamed(cfg: Config, given: dict[str, Any]) -> None:
    def rename(data: SoakSquares) -> None:
        data.classes = ["left", "right", "middle"]

    index = SoakSquares.index
    SoakSquares.index = lambda self, split: (index(self, split), rename(self))[0]


def _indexed(change: Callable[..., Any]) -> None:
    index = SoakSquares.index
    SoakSquares.index = lambda self, split: change(*index(self, split))


def other_code(cfg: Config, given: dict[str, Any]) -> None:
    agreement._code = lambda: "another"


def other_torch(cfg: Config, given: dict[str, Any]) -> None:
    torch.__version__ = "1.0"  # pyright: ignore[reportAttributeAccessIssue]


WAYS: dict[str, tuple[Way, str]] = {  # and what is said of it
    "lr": (lambda cfg, given: cfg.optimizer.update(lr=1.0), "optimizer.lr 1.0, rank 0 0.003"),
    "seed": (lambda cfg, given: cfg.update(seed=4), "seed 4, rank 0 3"),
    "epochs": (lambda cfg, given: cfg.train_cfg.update(max_epochs=9), "train_cfg.max_epochs 9"),
    "accumulate": (lambda cfg, given: cfg.train_cfg.update(accumulate=2), "train_cfg.accumulate 2"),
    "amp": (lambda cfg, given: cfg.train_cfg.update(amp="bf16"), "train_cfg.amp 'bf16'"),
    "dtype": (lambda cfg, given: torch.set_default_dtype(torch.float64), "dtype 'torch.float64'"),
    "samples": (fewer, "train.samples 25, rank 0 33"),
    "labels": (swapped, "train.data"),
    "classes": (renamed, "train.classes.1 'right', rank 0 'middle'"),
    "folder": (lambda cfg, given: given.update(work_dir=Path(f"{given['work_dir']}x")), "another work dir"),
    "code": (other_code, "code 'another'"),
    "torch": (other_torch, "torch 1.0 with gloo"),
    "resume": (lambda cfg, given: given.update(resume=True), "options.resume True, rank 0 False"),
}


def run(way: Way | None, home: Path) -> tuple[list[int], list[str], float]:
    """Return exit codes and errors, rank by rank, and the seconds that the processes took."""

    def body(rank: int) -> None:
        cfg, given = config(), dict[str, Any](work_dir=home / "run", resume=False)
        if rank == 1 and way is not None:
            way(cfg, given)
        with contextlib.redirect_stdout(io.StringIO()), processes.process_group():
            train(cfg, **given)

    begin = time.monotonic()
    codes = [ended(pid) for pid in spawn_ranks(2, body, home)]
    return codes, [(home / f"{rank}.txt").read_text() for rank in range(2)], time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="all")
    parser.add_argument("--seconds", type=float, default=30.0, help="within which all have to end")
    given = parser.parse_args()
    register()
    torch.set_num_threads(1)
    warm()
    failed, slowest = 0, 0.0
    for name in given.ways:
        way, wanted = WAYS[name]
        with tempfile.TemporaryDirectory() as home:
            codes, said, seconds = run(way, Path(home))
            begun = list(Path(home).rglob("*.pth"))
        slowest = max(slowest, seconds)
        told = all("rank 1 has" in one and wanted in one and one.count("\n") == 1 for one in said)
        if codes != [1, 1] or not told or seconds > given.seconds or begun:
            failed += 1
            print(f"{name}: exit codes {codes} after {seconds:.1f} s, {len(begun)} checkpoints\n{said[0]}\n{said[1]}")
    print(f"{len(given.ways) - failed} of {len(given.ways)} ways were told by both; {slowest:.1f} s at most")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
