"""What a run says while it runs: one line that is rewritten on a terminal, one line per epoch otherwise."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Counts optimizer iterations; knows the time that is left, samples per second and the share spent on waiting
    for the loader."""

    def __init__(self, epochs: int, iterations: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.epochs, self.iterations = epochs, iterations
        self.stream = sys.stdout if stream is None else stream
        self.live = self.stream.isatty()
        self.done = self.first = done
        self.start = time.perf_counter()
        self.shown = 0.0
        self.new_epoch()

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
            share = self.done / (self.epochs * self.iterations)
            bar = ("=" * int(24 * share)).ljust(24)
            self.stream.write(f"\r[{bar}] {self.line(lr)}   \033[K")
            self.stream.flush()

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
        self.stream.flush()


def clock(seconds: float) -> str:
    seconds = int(seconds)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
