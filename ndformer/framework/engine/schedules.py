"""Learning rates as functions of the share of training done: no state, so nothing can freeze or drift on resume."""

from __future__ import annotations

import math
from typing import Protocol

from ndformer.framework.registry import Registry

SCHEDULES = Registry("schedule")


class Schedule(Protocol):
    def __call__(self, update: int, total: int) -> float:
        """The factor on the learning rate of optimizer step `update`, counted from 0, of `total`."""
        ...


def cosine(start: float, end: float, share: float) -> float:
    """From start to end along half a cosine, share 0..1."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))


@SCHEDULES.register_module()
class WarmupCosine:
    """Linear from `start` to 1 over the first `warmup` (share of all steps), then half a cosine to `end`."""

    def __init__(self, warmup: float = 0.05, start: float = 0.0, end: float = 0.0) -> None:
        _share(warmup)
        self.warmup, self.start, self.end = warmup, start, end

    def __call__(self, update: int, total: int) -> float:
        ramp = self.warmup * total
        if update < ramp:
            return self.start + (1 - self.start) * (update + 1) / (ramp + 1)
        return cosine(1.0, self.end, (update - ramp) / max(1.0, total - ramp))


@SCHEDULES.register_module()
class OneCycle:
    """torch's OneCycleLR with cosines: 1/div up to 1 over `warmup`, then down to 1/(div final_div); betas fixed."""

    def __init__(self, warmup: float = 0.3, div: float = 25.0, final_div: float = 1e4) -> None:
        _share(warmup)
        self.warmup, self.first, self.last = warmup, 1 / div, 1 / (div * final_div)

    def __call__(self, update: int, total: int) -> float:
        top, end = self.warmup * total - 1, total - 1
        if update <= top:
            return cosine(self.first, 1.0, update / top if top > 0 else 1.0)
        return cosine(1.0, self.last, (update - top) / (end - top))


@SCHEDULES.register_module()
class Constant:
    """The same learning rate throughout."""

    def __call__(self, update: int, total: int) -> float:
        return 1.0


def _share(warmup: float) -> None:
    if not 0 <= warmup < 1:
        raise ValueError(f"warmup is the share of all steps, 0 to 1, got {warmup}: for 15 of 300 epochs write 15 / 300")
