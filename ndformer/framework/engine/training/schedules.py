"""Learning-rate schedules, and beta1's: functions of the share of training done, so that nothing drifts on resume."""

import math

from ndformer.framework.registry import SCHEDULES
from ndformer.framework.registry.ranges import Positive, Rate, Share


class Schedule:
    def __call__(self, update: int, total: int) -> float:
        """The factor on the learning rate of optimizer step `update`, counted from 0, of `total`."""
        raise NotImplementedError

    def beta1(self, update: int, total: int) -> float | None:
        """Adam's beta1 at that step; None: what the optimizer has."""
        return None


def cosine(start: float, end: float, share: float) -> float:
    """From start to end along half a cosine, share 0..1."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))


@SCHEDULES.register_module()
class WarmupCosine(Schedule):
    """Warm-up and cosine: linear from `start` to 1 over the first `warmup` (share of steps), half a cosine to `end`."""

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
    """torch's OneCycleLR with cosines: 1/div up to 1 over `warmup`, then down to 1/(div final_div).

    With `betas`, torch's are (0.85, 0.95), beta1 falls from the second to the first meanwhile, and rises again.
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
        return self._between(self.first, 1.0, self.last, update, total)

    def beta1(self, update: int, total: int) -> float | None:
        return None if self.betas is None else self._between(self.betas[1], *self.betas, update, total)

    def _between(self, start: float, top: float, end: float, update: int, total: int) -> float:
        turn, last = self.warmup * total - 1, total - 1
        if update <= turn:
            return cosine(start, top, update / turn if turn > 0 else 1.0)
        return cosine(top, end, (update - turn) / (last - turn))


@SCHEDULES.register_module()
class Constant(Schedule):
    """The same learning rate throughout."""

    def __call__(self, update: int, total: int) -> float:
        return 1.0


def _share(warmup: float) -> None:
    if not 0 <= warmup < 1:
        raise ValueError(f"warmup is the share of all steps, 0 to 1, got {warmup}: for 15 of 300 epochs write 15 / 300")
