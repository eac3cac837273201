"""Compare two processes with batches of 4 with one with batches of 8: every loss, and the final metrics.

Then two processes are killed within an epoch, both or one of them, and must end bit-equal after they are resumed.

python -m tests.soak.ranks
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.system import processes
from tests.soak.tiny import config, differences, ended, register, spawn_ranks, warm


def settings(batch: int, **changes: Any) -> Config:
    cfg = config(batch=batch)
    cfg.train_cfg.update(dict(max_epochs=13, accumulate=1, checkpoint_every=None) | changes)
    return cfg


BOTH = (0, 1)


def record(cfg: Config, folder: Path, rank: int, kill_at: int) -> None:
    """Train one rank and write its losses to a file. It kills itself at step `kill_at` if that is not 0."""
    step, losses = Trainer.train_step, []

    def recorded(self: Trainer, batch: dict[str, Any]) -> dict[str, Any]:
        if kill_at and len(losses) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        outputs = step(self, batch)
        losses.append(outputs["loss"].item())
        return outputs

    Trainer.train_step = recorded
    with processes.process_group():
        train(cfg, folder, resume=(folder / checkpoint.LAST).is_file())
    (folder / f"losses{rank}.json").write_text(json.dumps(losses))


def run(cfg: Config, folder: Path, count: int, kill_at: int = 0, victims: Sequence[int] = BOTH) -> float:
    """Train with `count` processes, of which the victims are killed at step `kill_at`.

    Returns the seconds from the end of the first victim to that of all processes.
    """
    body = lambda rank: record(cfg, folder, rank, kill_at if rank in victims else 0)
    ids = spawn_ranks(count, body, folder.parent)
    codes, ends = {}, []
    for rank in sorted(range(count), key=lambda rank: rank not in victims):
        codes[rank] = ended(ids[rank])
        ends.append(time.monotonic())
    expected = {rank: (-signal.SIGKILL if rank in victims else 1) if kill_at else 0 for rank in range(count)}
    if codes != expected:
        logs = [(folder.parent / f"{rank}.txt").read_text() for rank in range(count)]
        sys.exit("\n".join([f"the processes ended with codes {codes}", *logs]))
    return ends[-1] - ends[0]


def main() -> None:
    register()
    torch.set_num_threads(1)
    warm()
    with tempfile.TemporaryDirectory() as home:
        single, double, killed = (Path(home) / name for name in ("single", "double", "killed"))
        run(settings(8), single, 1)
        run(settings(4), double, 2)
        a, b = (json.loads((folder / "losses0.json").read_text()) for folder in (single, double))
        largest = max(abs(x - y) for x, y in zip(a, b, strict=True))
        results = [json.loads((folder / "results.json").read_text()) for folder in (single, double)]
        print(f"{len(a)} steps: the largest difference of losses is {largest:.1e}")
        if largest > 1e-5 or any(results[0][name] != results[1][name] for name in ("test", "val", "epochs")):
            sys.exit(f"1 process: {results[0]}\n2 processes: {results[1]}")
        print(f"the same metrics: {results[0]['test']}")
        short = settings(4, max_epochs=2, checkpoint_every=1)
        run(short, killed, 2, kill_at=6)
        at = checkpoint.load(killed / checkpoint.LAST)
        run(short, killed, 2)
        run(short, Path(home) / "whole", 2)
        wrong = differences(Path(home) / "whole", killed)
        if wrong or not at["batch"]:
            sys.exit(f"two killed processes differ: {', '.join(wrong[:5])}")
        print("two processes, killed in mid-epoch, end bit-equal")
        for victim in BOTH:
            folder = Path(home) / f"victim{victim}"
            seconds = run(short, folder, 2, kill_at=6, victims=[victim])
            run(short, folder, 2)
            wrong = differences(Path(home) / "whole", folder)
            if wrong or seconds > 20:
                sys.exit(f"rank {victim} killed, the other ended {seconds:.1f} s later, and: {', '.join(wrong[:5])}")
            print(f"rank {victim} killed: the other ended {seconds:.1f} s later, and resumed they end bit-equal")


if __name__ == "__main__":
    main()
