"""Hours of training in a simulation: tiny steps of a minute each by an injected clock, and every kind of disturbance.

python -m tests.soak.long_run --hours 12

Processes are killed, get SIGTERM or SIGUSR1, hang until the watchdog ends them, or find the disk full. Then the run
goes on with 1, 2 or 4 of them, whose clocks differ. Its checkpoints and results must be those of an undisturbed run on
two processes, to 1e-5, and so must the minutes of training, to 1 %.
"""

import argparse
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ndformer.framework.engine.training import progress, run_state, trainer
from ndformer.framework.engine.training.preemption import RESUMABLE
from ndformer.framework.engine.training.trainer import Trainer
from tests.soak.kill import Fault
from tests.soak.several import STEP, TOLERANCE, Run, distance, settings
from tests.soak.tiny import register, warm

LOOPS, STEPS = 10, 41  # passes over the training samples in an epoch, and its steps
SIGNALS = {"killed": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGUSR1": signal.SIGUSR1}
CODES = {"killed": {1, -signal.SIGKILL}, "hang": {1}, "full disk": {1, RESUMABLE}}  # of all processes; else RESUMABLE


class Clock:
    """The module time of a process, in which a step takes about a minute."""

    def __init__(self, seed: int) -> None:
        self.now, self.rng = 0.0, random.Random(seed)

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def advance(self) -> None:
        self.now += self.rng.uniform(59, 61)


def hours(cfg: Config, number: float) -> Config:
    """Set the length of a run, a checkpoint every ten minutes, and an optimizer that does not amplify rounding.

    With lr 3e-3 and eps 1e-4, undisturbed runs on 1 and on 2 processes differ by 4e-2 after 700 steps.
    """
    cfg.optimizer.update(lr=1e-3, eps=1e-2)
    cfg.train_cfg.update(max_epochs=math.ceil(60 * number / STEPS), checkpoint_every="10 minutes")
    cfg.train_dataloader.loops = LOOPS
    return cfg


def disturb(seed: int, kind: str = "", step: int = 0, victims: tuple[int, ...] = ()) -> Callable[[int], None]:
    """Return what gives a process its clock and, if it is a victim, its disturbance after so many steps."""

    def before(rank: int) -> None:
        clock, end_step, steps = Clock(seed + rank), Trainer.end_step, [0]
        progress.time = run_state.time = trainer.time = clock  # pyright: ignore[reportAttributeAccessIssue]
        if kind == "full disk" and rank in victims:
            Fault(1 + seed % (6 if rank else 100), "full").install()  # rank 0 writes most files

        def ends(self: Trainer) -> None:
            clock.advance()
            steps[0] += 1
            if steps[0] == step and rank in victims:
                if kind == "hang":
                    self.watchdog.ticks = math.inf  # pyright: ignore[reportAttributeAccessIssue]
                    time.sleep(3600)
                os.kill(os.getpid(), SIGNALS.get(kind, signal.SIGTERM))
            end_step(self)

        Trainer.end_step = ends

    return before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=12)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    register()
    torch.set_num_threads(1)
    warm()
    rng, tally, begin, total, codes = random.Random(given.seed), Counter[str](), time.monotonic(), 0, [1]
    kinds = [*SIGNALS, "hang", "full disk"]
    with tempfile.TemporaryDirectory() as home:
        whole, folder = (Path(home) / name / "run" for name in ("whole", "disturbed"))
        run = Run(hours(settings(2), given.hours), whole, 2, before=disturb(1000))
        if any(run.end()):
            sys.exit(run.log())
        steps = run.marks[STEP]
        print(f"undisturbed: {steps / 60:.1f} hours on 2 processes, {time.monotonic() - begin:.0f} s", flush=True)
        while any(codes):
            number = tally["starts"]
            if number % len(kinds) == 0:
                rng.shuffle(kinds)
            kind, count, step = kinds[number % len(kinds)], (2, 4, 1)[number % 3], rng.randint(1, 60)
            step = 60 if kind == "full disk" else step  # on a full disk a run may go on
            victims = (rng.randrange(count),) if rng.random() < 0.5 else tuple(range(count))
            cfg = hours(settings(count), given.hours)
            run = Run(cfg, folder, count, before=disturb(rng.randrange(10**6), kind, step, victims))
            codes = run.end()
            total += run.marks[STEP]
            tally["starts"] += 1
            tally[kind if any(codes) else "undisturbed to the end"] += 1
            who = "all" if len(victims) == count else f"rank {victims[0]}"
            what = f"{kind} ({who}) at step {step}" if any(codes) else "to the end"
            print(f"{total / 60:.1f} hours: {count} processes, {what}: {codes}", flush=True)
            if any(codes) and not {*codes} <= CODES.get(kind, {RESUMABLE}):
                sys.exit(run.log())
        far = distance(whole, folder)
        minutes = [json.loads((path / "results.json").read_text())["minutes"] for path in (whole, folder)]
    tallied = ", ".join(f"{count} {name}" for name, count in tally.items())
    print(f"{tallied}; {(total - steps) / 60:.1f} hours of work repeated; {time.monotonic() - begin:.0f} s")
    print(f"largest difference {far:.1e}; {minutes[0]:.1f} and {minutes[1]:.1f} minutes of training")
    sys.exit(far > TOLERANCE or abs(minutes[0] - minutes[1]) > 0.01 * minutes[0])


if __name__ == "__main__":
    main()
