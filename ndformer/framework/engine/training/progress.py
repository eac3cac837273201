"""Progress of a run: log lines with step, loss, speed and remaining time, and the timer for checkpoints."""

import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from ndformer.framework.engine.training.console import Console
from ndformer.framework.system import processes

REWRITE_EVERY, LOG_EVERY = 0.2, 5.0  # seconds between updates of a terminal's last line, between lines of a log
SLOW = 0.3  # share of an epoch spent on waiting for the loader that is reported
SHORT = 60.0  # seconds of a run whose total time is not estimated
WARM = 3.0  # seconds of steps after the first, which also warms up, before the total time is estimated


class Progress:
    """A counter of iterations that reports remaining time, samples per second and the share spent on loading."""

    def __init__(self, epochs: int, iterations: int, console: Console, device: str) -> None:
        self.epochs, self.iterations, self.console, self.device = epochs, iterations, console, device
        self.done = self.first = 0
        self.start = time.perf_counter()
        self.first_end: float | None = None  # when the first step ended
        self.estimated = self.warned = False
        self.rewritten = 0.0
        self.new_epoch()

    def begin(self) -> None:
        """Start measuring time, once the run is prepared."""
        self.start = self.epoch_start = self.logged = time.perf_counter()

    def new_epoch(self) -> None:
        self.samples, self.waited, self.steps = 0, 0.0, 0
        self.all_samples: int | None = None  # of all processes, which are summed at the end of an epoch
        self.seconds = 0.0  # from the start of the epoch to the end of its last step
        self.loss = 0.0  # the sum over steps, in float64
        self.epoch_start = self.logged = time.perf_counter()

    def step(self, samples: int, waited: float, loss: Tensor, lr: float) -> None:
        self.done += 1
        self.steps += 1
        self.samples += samples
        self.waited += waited
        self.loss += float(loss)
        now = time.perf_counter()
        self.seconds = now - self.epoch_start
        if self.first_end is None:
            self.first_end = now
        elif not self.estimated and now - self.first_end > WARM and self.done < self.epochs * self.iterations:
            self.estimated = True
            each = (now - self.first_end) / (self.done - self.first - 1)
            steps = self.epochs * self.iterations - self.done
            if each * steps > SHORT:
                takes = f"on {self.device} this takes about {about(each * steps)}"
                self.console.print(f"{takes}: {steps} steps of {each:.2g} s are left, validation not counted")
        self._show(self.done / max(1, self.epochs * self.iterations), self.line(lr, within=True))

    def with_progress(self, batches: DataLoader[Any], label: str) -> Iterator[dict[str, Any]]:
        """Yield the batches of validation or test, and show the progress."""
        start = self.logged = time.perf_counter()
        for done, batch in enumerate(batches, 1):
            yield batch
            left = clock((time.perf_counter() - start) / done * (len(batches) - done))
            self._show(done / len(batches), f"{label}  batch {done}/{len(batches)}  left {left}")
        self.console.clear()

    def _show(self, share: float, line: str) -> None:
        """Show a line if the time has come: every few seconds in a log, several times a second on a terminal."""
        now = time.perf_counter()
        if now - self.logged >= LOG_EVERY:
            self.logged = now
            self.console.log_progress(line)
        if self.console.live and now - self.rewritten >= REWRITE_EVERY:
            self.rewritten = now
            self.console.rewrite(f"[{('=' * int(24 * share)).ljust(24)}] {line}   ")

    def state(self) -> dict[str, float]:
        """Return the state from which the count and the mean loss of an epoch continue."""
        return dict(done=self.done, loss=self.loss, steps=self.steps)

    def restore(self, state: dict[str, float]) -> None:
        self.done = self.first = int(state["done"])
        self.loss, self.steps = state["loss"], int(state["steps"])

    @property
    def rate(self) -> float:
        """Samples per second in the training steps of this epoch, of all processes; within an epoch an estimate."""
        samples = processes.count() * self.samples if self.all_samples is None else self.all_samples
        return samples / max(1e-9, self.seconds)

    @property
    def wait_share(self) -> float:
        return self.waited / max(1e-9, self.seconds)

    @property
    def mean_loss(self) -> float:
        return self.loss / max(1, self.steps)

    def line(self, lr: float, within: bool = False) -> str:
        epoch = min(self.epochs, (self.done - 1) // self.iterations + 1)
        left = (time.perf_counter() - self.start) / max(1, self.done - self.first)
        left *= self.epochs * self.iterations - self.done
        step = f"step {(self.done - 1) % self.iterations + 1}/{self.iterations}  " if within else ""
        return (
            f"epoch {epoch}/{self.epochs}  {step}loss {self.mean_loss:.4f}  lr {lr:.2e}  "
            f"{self.rate:.0f} samples/s  loader {self.wait_share:.0%}  left {clock(left)}"
        )

    def end_epoch(self, lr: float, metrics: str) -> None:
        self.console.print(f"{self.line(lr)}  {metrics}")
        if not self.warned and self.wait_share > SLOW and self.seconds > 20:
            self.warned = True
            self.console.print(
                f"loading is the bottleneck: training waited for it {self.wait_share:.0%} of the epoch. "
                f"Raise train_dataloader.num_workers (this process may use {processes.cores()} cores), or put the data "
                "on a faster disk"
            )


def with_stderr_progress(batches: DataLoader[Any], label: str) -> Iterator[dict[str, Any]]:
    """Yield the batches, and print the progress to stderr, for programs that print results to stdout."""
    start = logged = time.perf_counter()
    for done, batch in enumerate(batches, 1):
        yield batch
        now = time.perf_counter()
        if now - logged >= LOG_EVERY and done < len(batches):
            logged, left = now, clock((now - start) / done * (len(batches) - done))
            print(f"{label}: batch {done} of {len(batches)}, {left} left", file=sys.stderr, flush=True)


class CheckpointTimer:
    """A timer for checkpoints within an epoch: every N optimizer steps, or every 'M minutes'."""

    def __init__(self, every: int | str | None) -> None:
        self.steps, self.seconds = 0, 0.0
        if isinstance(every, str):
            minutes = re.fullmatch(r"(\d+|\d*\.\d+) minutes?", every)
            self.seconds = 60 * float(minutes[1]) if minutes else 0.0
            if not self.seconds:
                raise ValueError(
                    f"checkpoint_every: expected a number of steps or a text like '10 minutes', got '{every}'"
                )
        elif every is not None:
            if every < 1:
                raise ValueError(f"checkpoint_every: expected 1 step or more, got {every}")
            self.steps = every
        self.restart()

    def restart(self) -> None:
        self.since, self.is_over = time.monotonic(), False

    def passed(self) -> bool:
        """Return whether the minutes have passed by the clock of this process.

        Clocks of several processes differ: the trainer sets `is_over`, on which they agree, before it calls due().
        """
        return bool(self.seconds) and time.monotonic() - self.since >= self.seconds

    def due(self, step: int) -> bool:
        return step % self.steps == 0 if self.steps else self.is_over


def clock(seconds: float) -> str:
    seconds = int(seconds)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def about(seconds: float) -> str:
    """Format a duration with one unit: "3 minutes"."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
