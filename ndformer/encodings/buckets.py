"""Buckets of relative positions: which integer steps between two tokens share one learned entry.

Each function returns a list with the bucket of the steps 0, 1, 2 ...; longer steps have the last bucket. Buckets are
computed in Python: logarithms of tensors round a power of two down in float32 and not in float64, or the reverse.
"""

import math
from collections.abc import Callable
from typing import Annotated

from ndformer.framework.registry.ranges import Ascending, Range

Step = Annotated[float, Range(0, 65536, above=True)]
Spans = Annotated[tuple[Step, Step, Step], Ascending()]  # alpha, beta, gamma

IRPE: Spans = (1.9, 3.8, 15.2)
T5: Spans = (8.0, 16.0, 128.0)  # 32 buckets for both sides


def clipped(max_step: int) -> list[int]:
    """Return one bucket for each step up to `max_step` (Shaw 2018)."""
    return list(range(max_step + 1))


def piecewise(spans: Spans) -> list[int]:
    """Return a bucket for each step up to alpha, then logarithmic ones, beta at gamma, rounded (iRPE, Wu 2021)."""
    return _logarithmic(spans, lambda value: math.floor(value + 0.5), last=math.floor(spans[1]))


def log(spans: Spans) -> list[int]:
    """Return a bucket for each step up to alpha, then logarithmic ones below beta, rounded down (T5, Raffel 2020)."""
    return _logarithmic(spans, math.floor, last=math.ceil(spans[1]) - 1)


def _logarithmic(spans: Spans, rounded: Callable[[float], int], last: int) -> list[int]:
    """Return the buckets of the steps up to gamma, which all longer steps share."""
    alpha, beta, gamma = spans
    if not alpha < beta < gamma:
        raise ValueError(f"alpha, beta and gamma must increase, got {alpha:g}, {beta:g}, {gamma:g}")

    def curve(step: int) -> float:
        return step if step <= alpha else alpha + math.log(step / alpha) / math.log(gamma / alpha) * (beta - alpha)

    # 9 digits: 2.9999999999999996 is 3
    return [min(last, rounded(round(curve(step), 9))) for step in range(math.ceil(gamma) + 1)]
