"""Buckets of relative positions: which whole steps between two tokens share one learned entry.

The bucket of each step is found once, in Python's numbers. Logarithms of tensors put a power of two into its own bucket
or into the one before it, in float32 not as in float64.
"""

import math
from collections.abc import Callable
from typing import Annotated

from ndformer.framework.registry.ranges import Ascending, Range

Step = Annotated[float, Range(0, 65536, above=True)]
Spans = Annotated[tuple[Step, Step, Step], Ascending()]  # alpha, beta, gamma

IRPE: Spans = (1.9, 3.8, 15.2)
T5: Spans = (8.0, 16.0, 128.0)  # 32 buckets for both sides


def clipped(reach: int) -> list[int]:
    """A bucket for each step up to `reach`, where the last one begins (Shaw 2018)."""
    return list(range(reach + 1))


def piecewise(spans: Spans) -> list[int]:
    """Up to alpha each step its own, from there logarithms, rounded, which reach beta at gamma (iRPE, Wu 2021)."""
    return _curved(spans, lambda value: math.floor(value + 0.5), last=math.floor(spans[1]))


def log(spans: Spans) -> list[int]:
    """Up to alpha each step its own, from there logarithms, rounded down, which end below beta (T5, Raffel 2020)."""
    return _curved(spans, math.floor, last=math.ceil(spans[1]) - 1)


def _curved(spans: Spans, whole: Callable[[float], int], last: int) -> list[int]:
    """For the steps 0, 1, 2 ... up to gamma, where all have come to the last one."""
    alpha, beta, gamma = spans
    if not alpha < beta < gamma:
        raise ValueError(f"spans are alpha < beta < gamma, got {alpha:g}, {beta:g}, {gamma:g}")

    def curve(step: int) -> float:
        return step if step <= alpha else alpha + math.log(step / alpha) / math.log(gamma / alpha) * (beta - alpha)

    return [min(last, whole(round(curve(step), 9))) for step in range(math.ceil(gamma) + 1)]  # 2.9999999999999996 is 3
