"""Sharded runs (FSDP) of several forked gloo processes that end early, and their distance from undisturbed ones."""

import contextlib
import faulthandler
import json
import math
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint, fsdp, sharded, work_dir
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.system import processes
from tests.soak.kill import Fault
from tests.soak.tiny import config, spawn_ranks

assert fsdp  # imported here, once for all processes that are forked
TOTAL, TOLERANCE = 8, 1e-5  # samples in a batch of all processes; for runs on another number of processes
PATIENCE = 60.0  # seconds in which the other processes of a run must end after one was killed
STEP, SAVE, WRITTEN = b".", b"s", b"m"  # what rank 0 writes to a pipe
SKIPPED = ("seconds", "minutes", "config", "settings", "processes")


def settings(count: int, **changes: Any) -> Config:
    # with its small eps, AdamW turns the rounding of a gradient that is almost 0 into a full step
    cfg = config(batch=TOTAL // count, optimizer=dict(type="AdamW", lr=3e-3, weight_decay=0.05, eps=1e-4))
    cfg.train_cfg.update(dict(parallel="fsdp", max_epochs=3, accumulate=1) | changes)
    return cfg


class Run:
    """A run of `count` forked processes, which is resumed if it has a checkpoint.

    `fault` happens in rank 0, and `before` is called in each process with its rank.
    """

    def __init__(
        self,
        cfg: Config,
        folder: Path,
        count: int,
        fault: Fault | None = None,
        before: Callable[[int], object] = lambda rank: None,
    ) -> None:
        folder.parent.mkdir(exist_ok=True)
        self.folder, self.count, self.fault, self.before = folder, count, fault, before
        self.resume, self.marks = work_dir.begun(folder), Counter[bytes]()
        self.reader, self.writer = os.pipe()
        self.ids = spawn_ranks(count, lambda rank: self._body(cfg, rank), folder.parent)
        os.close(self.writer)

    def _body(self, cfg: Config, rank: int) -> None:
        faulthandler.enable(sys.stderr)
        if rank:
            os.close(self.writer)
        else:
            for owner, name, mark in ((sharded.Saver, "save_async", SAVE), (Trainer, "end_step", STEP)):
                setattr(owner, name, self._marked(getattr(owner, name), mark))
            sharded.write_manifest = self._marked(sharded.write_manifest, b"", WRITTEN)
            if self.fault is not None:
                self.fault.install()
        self.before(rank)
        with processes.process_group():
            train(cfg, self.folder, resume=self.resume)
        if self.fault is not None and rank == 0:
            (self.folder.parent / "operations").write_text(str(self.fault.count))

    def _marked(self, call: Callable[..., Any], before: bytes, after: bytes = b"") -> Callable[..., Any]:
        def marked(*given: Any, **named: Any) -> Any:
            os.write(self.writer, before)
            result = call(*given, **named)
            os.write(self.writer, after)
            return result

        return marked

    def wait_for(self, mark: bytes, times: int = 1) -> bool:
        """Wait until rank 0 has written a mark so many times; False if it ended before."""
        while self.marks[mark] < times:
            if not (found := os.read(self.reader, 1)):
                return False
            self.marks[found] += 1
        return True

    def kill(self, ranks: Sequence[int], number: int = signal.SIGKILL) -> None:
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.ids[rank], number)

    def end(self) -> list[int]:
        """Return the exit codes. Processes that wait long for a killed one write their stacks and end with SIGABRT."""
        codes, first = dict[int, int](), math.inf
        while left := [rank for rank in range(self.count) if rank not in codes]:
            for rank in left:
                if (found := os.waitpid(self.ids[rank], os.WNOHANG))[0]:
                    codes[rank], first = os.waitstatus_to_exitcode(found[1]), min(first, time.monotonic())
            if any(codes.values()) and time.monotonic() - first > PATIENCE:
                self.kill(left, signal.SIGABRT)
            time.sleep(0.005)
        self.wait_for(b"none")
        os.close(self.reader)
        return [codes[rank] for rank in range(self.count)]

    def log(self) -> str:
        return "\n".join((self.folder.parent / f"{rank}.txt").read_text()[-3000:] for rank in range(self.count))


def largest_difference(a: Any, b: Any) -> float:
    """Return the largest difference of numbers in two nested values; infinity if something else differs."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape:
        return (a.double() - b.double()).abs().max().item() if a.numel() else 0.0
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return max((largest_difference(a[key], b[key]) for key in a if key not in SKIPPED), default=0.0)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return max(map(largest_difference, a, b), default=0.0)
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b)
    return 0.0 if a == b else math.inf


def distance(one: Path, other: Path) -> float:
    """Return the largest difference between the checkpoints and results of two finished runs."""
    loaded = [
        [checkpoint.load(folder / name) for name in (checkpoint.LAST, checkpoint.BEST)] for folder in (one, other)
    ]
    results = [json.loads((folder / "results.json").read_text()) for folder in (one, other)]
    return max(largest_difference(*loaded), largest_difference(*results))
