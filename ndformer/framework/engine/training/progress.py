"""What a run says while it runs: one line that is rewritten on a terminal, one line per epoch otherwise."""

import sys
import time
from typing import TextIO

from ndformer.framework import foreign, processes

SLOW = 0.3  # the share of an epoch spent on waiting from which on it is said


class Progress:
    """Counts optimizer iterations; knows the time that is left, samples per second and the share spent on waiting
    for the loader."""

    def __init__(self, epochs: int, iterations: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.epochs, self.iterations = epochs, iterations
        self.stream = foreign.rewritable(sys.stdout) if stream is None else stream
        self.live = self.stream.isatty()
        self.done = self.first = done
        self.start = time.perf_counter()
        self.shown, self.warned = 0.0, False
        self.new_epoch()

    def begin(self) -> None:
        """Time counts from here on, not from when the run was prepared."""
        self.start = self.epoch_start = time.perf_counter()

    def new_epoch(self) -> None:
        self.samples, self.waited, self.loss, self.steps = 0, 0.0, 0.0, 0
        self.epoch_start = time.perf_counter()

    def step(self, samples: int, waited: float, loss: float, lr: float) -> None:
        self.done += 1
        self.steps += 1
        self.samples += samples
        self.waited += waited
        self.loss += loss
        now = time.perf_counter()
        if self.live and now - self.shown > 0.2:
            self.shown = now
            share = self.done / max(1, self.epochs * self.iterations)
            bar = ("=" * int(24 * share)).ljust(24)
            self.stream.write(f"\r[{bar}] {self.line(lr)}   \033[K")
            self.stream.flush()

    def state(self) -> dict[str, float]:
        """What the mean loss of an epoch is made of."""
        return dict(done=self.done, loss=self.loss, steps=self.steps)

    def restore(self, state: dict[str, float]) -> None:
        self.done = self.first = int(state["done"])
        self.loss, self.steps = state["loss"], int(state["steps"])

    @property
    def rate(self) -> float:
        """Samples per second in this epoch."""
        return self.samples / max(1e-9, time.perf_counter() - self.epoch_start)

    @property
    def wait_share(self) -> float:
        return self.waited / max(1e-9, time.perf_counter() - self.epoch_start)

    @property
    def mean_loss(self) -> float:
        return self.loss / max(1, self.steps)

    def line(self, lr: float) -> str:
        epoch = min(self.epochs, (self.done - 1) // self.iterations + 1)
        left = (time.perf_counter() - self.start) / max(1, self.done - self.first)
        left *= self.epochs * self.iterations - self.done
        return (
            f"epoch {epoch}/{self.epochs}  loss {self.mean_loss:.4f}  lr {lr:.2e}  "
            f"{self.rate:.0f} samples/s  loader {self.wait_share:.0%}  left {clock(left)}"
        )

    def end_epoch(self, lr: float, metrics: dict[str, float]) -> None:
        text = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        self.stream.write(("\r\033[K" if self.live else "") + f"{self.line(lr)}  {text}\n")
        if not self.warned and self.wait_share > SLOW and time.perf_counter() - self.epoch_start > 20:
            self.warned = True
            self.stream.write(
                f"loading is the bottleneck: training waited for it {self.wait_share:.0%} of the epoch. "
                f"Raise train_dataloader.num_workers (this process may use {processes.cores()} cores), or put the data "
                "on a faster disk\n"
            )
        self.stream.flush()


class CheckpointTimer:
    """When a checkpoint is due: every N optimizer steps, or 'M minutes'."""

    def __init__(self, every: int | str | None) -> None:
        self.steps, self.seconds = 0, 0.0
        if isinstance(every, str):
            number, _, unit = every.partition(" ")
            try:
                self.seconds = 60 * float(number)
            except ValueError:
                self.seconds = 0.0
            if unit not in ("minute", "minutes") or not 0 < self.seconds < float("inf"):
                raise ValueError(f"checkpoint_every is a number of steps or a text like '10 minutes', got '{every}'")
        elif every is not None:
            if every < 1:
                raise ValueError(f"checkpoint_every is 1 step or more, got {every}")
            self.steps = every
        self.restart()

    def restart(self) -> None:
        self.since = time.monotonic()

    def due(self, step: int) -> bool:
        if self.steps:
            return step % self.steps == 0
        return bool(self.seconds) and time.monotonic() - self.since >= self.seconds


def clock(seconds: float) -> str:
    seconds = int(seconds)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
