"""Two processes with batches of 4 against one with batches of 8, from one seed: every loss, and the final metrics. Then
two processes that are killed in mid-epoch, both or one of them, and go on to what they would have been.

python -m tests.soak.ranks
"""

import json
import os
import signal
import socket
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
from ndformer.framework.errors import DataError
from ndformer.framework.pictures import runs as report
from ndformer.framework.system import processes
from tests.soak.tiny import config, differences, ended, register, warm


def settings(batch: int, **changes: Any) -> Config:
    cfg = config(batch=batch)
    cfg.train_cfg.update(dict(max_epochs=13, accumulate=1, checkpoint_every=None) | changes)
    return cfg


BOTH = (0, 1)


def start(cfg: Config, folder: Path, count: int, kill_at: int = 0, victims: Sequence[int] = BOTH) -> list[int]:
    """The ids of `count` processes of one run; each writes its losses. At step `kill_at` the victims are killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ids = []
    for rank in range(count):
        pid = os.fork()
        if pid:
            ids.append(pid)
            continue
        if count > 1:
            os.environ |= dict(
                RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=port
            )
        code = 1
        try:
            code = one(cfg, folder, rank, kill_at if rank in victims else 0)
        except DataError as error:
            print(f"rank {rank}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            os._exit(code)
    return ids


def one(cfg: Config, folder: Path, rank: int, kill_at: int) -> int:
    report.curves = report.confusion_matrix = lambda *given: None
    step, losses = Trainer.train_step, []

    def noted(self: Trainer, batch: dict[str, Any]) -> dict[str, Any]:
        if kill_at and len(losses) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        found = step(self, batch)
        losses.append(found["loss"].item())
        return found

    Trainer.train_step = noted
    with processes.process_group():
        train(cfg, folder, resume=(folder / checkpoint.LAST).is_file())
    (folder / f"losses{rank}.json").write_text(json.dumps(losses))
    return 0


def run(cfg: Config, folder: Path, count: int, kill_at: int = 0, victims: Sequence[int] = BOTH) -> float:
    """Seconds from the end of the first of several victims, or of the only one, to that of all."""
    ids = start(cfg, folder, count, kill_at, victims)
    order = sorted(range(count), key=lambda rank: rank not in victims)
    codes, ends = {}, []
    for rank in order:
        codes[rank] = ended(ids[rank])
        ends.append(time.monotonic())
    wanted = {rank: (-signal.SIGKILL if rank in victims else 1) if kill_at else 0 for rank in range(count)}
    if codes != wanted:
        sys.exit(f"the processes ended with codes {codes}")
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
