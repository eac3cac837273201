"""A watchdog that ends a training that hangs, after it has printed what every process was doing."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from traceback import walk_stack
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from ndformer.framework.system import processes

if TYPE_CHECKING:
    from ndformer.framework.engine.training.runner import Runner

HANG_AFTER = 30.0  # minutes
TICK = 1.0  # seconds; ticks are counted, so that the time for which a process is stopped (SIGSTOP) does not count
ANSWER = 10.0  # seconds in which the processes of a run report to rank 0
HANGS, REPORTED = "watchdog: hangs", "watchdog: reported"  # keys of the process group's store


@dataclass
class Report:
    """The state of a process: whether its main thread waited for other processes or the device, and its stacks."""

    position: int  # 2 n after n finished steps, and 2 n + 1 within the next
    waits: bool
    stacks: str

    def __str__(self) -> str:
        within = f", step {self.position // 2 + 1} begun" * (self.position % 2)
        return f"{self.position // 2} steps finished{within}{', waits for other processes or the device' * self.waits}"


class Watchdog:
    """A context whose thread ends the process with code 1 if the training loop makes no progress for `minutes`.

    As a hook it notes the progress of training, validation, test and checkpoints. After the test it stops.
    """

    def __init__(self, minutes: float | None = HANG_AFTER) -> None:
        self.minutes, self.position, self.ticks = minutes, 0, 0
        self.stopped, self.called = threading.Event(), threading.Event()  # called: another process reports a hang
        self.threads: list[threading.Thread] = []
        self.store: Any = None

    def beat(self, runner: Runner, **arguments: Any) -> None:
        self.ticks = 0

    before_run = before_train_epoch = after_train_epoch = after_train = before_test = after_test_iter = beat
    before_val = after_val_iter = after_val_epoch = after_val = before_save_checkpoint = after_load_checkpoint = beat

    def before_train_iter(self, runner: Runner, **arguments: Any) -> None:
        self.position, self.ticks = 2 * runner.iter + 1, 0

    def after_train_iter(self, runner: Runner, **arguments: Any) -> None:
        self.position, self.ticks = 2 * runner.iter + 2, 0

    def after_test(self, runner: Runner) -> None:
        self.stopped.set()

    def __enter__(self) -> Watchdog:
        if self.minutes is not None:
            targets = [self._watch]
            if processes.is_distributed():
                store: Any = dist.distributed_c10d._get_default_store()
                self.store = store.clone()  # a connection of its own: the main thread may wait in the other
                targets.append(self._listen)
            self.threads = [threading.Thread(target=target, name="watchdog", daemon=True) for target in targets]
            for thread in self.threads:
                thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join(TICK)

    def _watch(self) -> None:
        assert self.minutes is not None
        while not self.stopped.wait(TICK):
            self.ticks += 1
            if self.called.is_set() or self.ticks >= 60 * self.minutes:
                reporting = threading.Thread(target=self._report, name="watchdog", daemon=True)
                reporting.start()
                reporting.join(2 * ANSWER)  # what hangs may also be the screen, the disk or the network
                os._exit(1)

    def _listen(self) -> None:
        with contextlib.suppress(RuntimeError):  # the store is gone
            while not self.stopped.wait(TICK):
                if self.store.check([HANGS]):
                    return self.called.set()

    def _report(self) -> None:
        rank = processes.rank()
        report = Report(self.position, _waits(), stacks())
        after = "another process hangs" if self.called.is_set() else f"no progress for {self.minutes:g} minutes"
        print(f"watchdog: {after}; rank {rank}: {report}\n{report.stacks}", file=sys.stderr, flush=True)
        if self.store is None:
            return
        keys = [f"{HANGS} {i}" for i in range(processes.count())]
        self.store.set(keys[rank], json.dumps(asdict(report)))
        self.store.set(HANGS, "")
        with contextlib.suppress(RuntimeError):
            self.store.wait([REPORTED] if rank else keys, timedelta(seconds=ANSWER))
        if rank == 0 or not self.store.check([REPORTED]):
            reports = [Report(**json.loads(self.store.get(key))) if self.store.check([key]) else None for key in keys]
            print(summary(reports), file=sys.stderr, flush=True)
            self.store.set(REPORTED, "")
            time.sleep(min(2 * TICK, ANSWER))  # for the others to read it: rank 0 may host the store


def lagging(reports: Sequence[Report | None]) -> list[int]:
    """Return the ranks on which the others wait: those without an answer, else with the least progress.

    Among equals they are those that do not wait themselves. Empty if all are equal.
    """
    positions = [-1 if report is None else report.position for report in reports]
    behind = [rank for rank, position in enumerate(positions) if position == min(positions)]
    active = [rank for rank in behind if (report := reports[rank]) is None or not report.waits]
    ranks = active or behind
    return ranks if len(ranks) < len(reports) else []


def summary(reports: Sequence[Report | None]) -> str:
    """Name the rank that lags, and list what all ranks were doing."""
    ranks = lagging(reports)
    named = f"rank {', '.join(map(str, ranks))} lags" if ranks else "all ranks are at the same point"
    absent = "no answer: the process is stopped or ended"
    lines = [f"  rank {i}: {report or absent}" for i, report in enumerate(reports)]
    lines += [f"rank {i}:\n{report.stacks}" for i in ranks if i > 0 and (report := reports[i]) is not None]
    return "\n".join([f"watchdog: the run hangs; {named}", *lines])


def stacks() -> str:
    """Return the stacks of all threads, innermost call first.

    Lines of source code are left out: a disk that hangs could not be read.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    threads = {names.get(ident, str(ident)): frame for ident, frame in sys._current_frames().items()}
    return "\n".join(
        "\n".join([f"{name}:", *(f"  {f.f_code.co_filename}:{n} in {f.f_code.co_name}" for f, n in walk_stack(frame))])
        for name, frame in sorted(threads.items(), key=lambda item: item[0] != "MainThread")
        if name != "watchdog"
    )


def _waits() -> bool:
    """Return whether the main thread is in a call of torch.distributed, or in the step's wait for the device."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return "torch/distributed/" in frame.f_code.co_filename or frame.f_code.co_name == "_sync_stats"
