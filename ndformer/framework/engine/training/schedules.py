"""Schedules of the learning rate (warm-up and cosine, ...) and of Adam's beta1, as functions of the step.

Functions of the step resume exactly.
"""

import math

from ndformer.framework.registry import SCHEDULES
from ndformer.framework.registry.ranges import Positive, Rate, Share


class Schedule:
    """Base class of schedules."""

    def __call__(self, update: int, total: int) -> float:
        """Return the factor on the learning rate at optimizer step `update` (from 0) of `total`."""
        raise NotImplementedError

    def beta1(self, update: int, total: int) -> float | None:
        """Return Adam's beta1 at that step; None: the optimizer's value."""
        return None


def cosine(start: float, end: float, share: float) -> float:
    """Return the value between start and end along half a cosine; share is from 0 to 1."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))


@SCHEDULES.register_module()
class WarmupCosine(Schedule):
    """Linear warmup and cosine decay: from `start` to 1 over `warmup` (a share of steps), then down to `end`."""

    def __init__(self, warmup: Rate = 0.05, start: Share = 0.0, end: Share = 0.0) -> None:
        _share(warmup)
        self.warmup, self.start, self.end = warmup, start, end

    def __call__(self, update: int, total: int) -> float:
        ramp = self.warmup * total
        if update < ramp:
            return self.start + (1 - self.start) * (update + 1) / (ramp + 1)
        return cosine(1.0, self.end, (update - ramp) / max(1.0, total - ramp))


@SCHEDULES.register_module()
class OneCycle(Schedule):
    """torch's OneCycleLR: a cosine from 1/div up to 1 over `warmup`, then down to 1/(div final_div).

    With `betas` (torch uses 0.85 and 0.95), beta1 goes from the second to the first and back.
    """

    def __init__(
        self,
        warmup: Rate = 0.3,
        div: Positive = 25.0,
        final_div: Positive = 1e4,
        betas: tuple[Rate, Rate] | None = None,
    ) -> None:
        _share(warmup)
        self.warmup, self.first, self.last, self.betas = warmup, 1 / div, 1 / (div * final_div), betas

    def __call__(self, update: int, total: int) -> float:
        return self._interpolate(self.first, 1.0, self.last, update, total)

    def beta1(self, update: int, total: int) -> float | None:
        return None if self.betas is None else self._interpolate(self.betas[1], *self.betas, update, total)

    def _interpolate(self, start: float, top: float, end: float, update: int, total: int) -> float:
        turn, last = self.warmup * total - 1, total - 1
        if update <= turn:
            return cosine(start, top, update / turn if turn > 0 else 1.0)
        return cosine(top, end, (update - turn) / (last - turn))


@SCHEDULES.register_module()
class Constant(Schedule):
    """A constant learning rate."""

    def __call__(self, update: int, total: int) -> float:
        return 1.0


def _share(warmup: float) -> None:
    if not 0 <= warmup < 1:
        raise ValueError(
            f"schedule.warmup: expected a share of all steps, from 0 to 1, got {warmup}. For 15 of 300 epochs write 15 "
            "/ 300"
        )
