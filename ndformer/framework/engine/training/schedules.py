"""Schedules of the learning rate (warm-up and cosine, ...) and of Adam's beta1, as functions of the step.

Functions of the step resume exactly.
"""

import math
from typing import Any

import numpy as np
import torch

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


class LearningRate:
    """The learning rates of an optimizer's parameter groups over a run: `peak` at the top of the schedule."""

    def __init__(self, schedule: dict[str, Any], peak: float, optimizer: torch.optim.Optimizer, updates: int) -> None:
        """`updates` is the number of optimizer steps of the run."""
        self.schedule: Schedule = SCHEDULES.create(schedule)
        self.peak, self.optimizer, self.updates = peak, optimizer, updates
        if self.schedule.beta1(0, 2) is not None and "betas" not in optimizer.defaults:
            kind = type(optimizer).__name__
            raise ValueError(f"schedule.betas: expected an optimizer with betas, got {kind}. Leave them out")
        samples = np.linspace(0, updates - 1, min(100, updates)).astype(int)
        if not any(self.schedule(int(update), updates) for update in samples):
            raise ValueError(f"schedule: the learning rate is 0 in all {updates} steps, so nothing would be learned")

    @property
    def current(self) -> float:
        """The learning rate of groups without a factor of their own, as `set` returned it."""
        group = max(self.optimizer.param_groups, key=lambda group: group["lr_scale"])
        return group["lr"] / (group["lr_scale"] or 1.0)

    def set(self, update: int) -> float:
        """Set the learning rates of an optimizer step, and return that of groups without a factor of their own."""
        factor, beta1 = self.schedule(update, self.updates), self.schedule.beta1(update, self.updates)
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * group["lr_scale"] * factor
            if beta1 is not None:
                group["betas"] = (beta1, *group["betas"][1:])
        return self.peak * factor
