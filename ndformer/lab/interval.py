"""Mean, standard deviation and 95 % confidence interval (Student's t) of the values of several runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ndformer.framework.quantity import Quantity

ENOUGH = 3  # runs, from which on tables have an interval


@dataclass(frozen=True)
class Summary:
    """The mean of some values, with its spread and interval."""

    n: int
    mean: float
    sd: float | None  # standard deviation of single runs; None with one run
    half: float | None  # half the width of the 95 % interval
    p: float | None = None  # of a gain: the two-sided p-value of no difference

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Summary:
        """Summarize one or more values."""
        n, mean = len(values), statistics.fmean(values)
        if n == 1:
            return cls(n, mean, None, None)
        sd = statistics.stdev(values) if math.isfinite(mean) else math.nan
        return cls(n, mean, sd, student_t(n - 1) * sd / math.sqrt(n))

    @classmethod
    def from_difference(cls, first: Sequence[float], second: Sequence[float]) -> Summary:
        """Summarize the difference of the means of two independent rows; `sd` is that of two single runs."""
        one, other = cls.from_values(first), cls.from_values(second)
        n, mean = min(one.n, other.n), one.mean - other.mean
        if one.sd is None or other.sd is None:
            return cls(n, mean, None, None)
        error, freedom = welch(first, second)
        sd, half = math.hypot(one.sd, other.sd), student_t(freedom) * error
        return cls(n, mean, sd, half, p_value(mean, error, freedom))

    @property
    def margin(self) -> float | None:
        """Half the width of the interval; None with fewer than 3 runs, whose interval is too wide to be useful."""
        return self.half if self.n >= ENOUGH else None


def welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the standard error of a difference of means, and its degrees of freedom (Welch 1947)."""
    parts = [(statistics.variance(values) / len(values), len(values) - 1) for values in (first, second)]
    error = math.sqrt(sum(v for v, _ in parts))
    return error, error**4 / sum(v**2 / f for v, f in parts) if error else float(len(first) + len(second) - 2)


def p_value(mean: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a mean of 0, by Student's t."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)


def student_t(freedom: float, confidence: float = 0.95) -> float:
    """Return the two-sided quantile of Student's t distribution: |t| is below it with this probability."""
    from scipy.special import stdtrit  # here: not every program that imports this module computes an interval

    return float(stdtrit(freedom, (1 + confidence) / 2))


def bounds(s: Summary, quantity: Quantity) -> tuple[float, float] | None:
    """Return the ends of the interval, within the limits of the quantity; None with too few runs."""
    if s.margin is None:
        return None
    low, high = quantity.scaled(s.mean - s.margin), quantity.scaled(s.mean + s.margin)
    lower, upper = quantity.limits
    return (max(low, lower), min(high, upper)) if lower <= quantity.scaled(s.mean) <= upper else (low, high)


def interval(s: Summary, quantity: Quantity) -> str:
    """Return the interval as tables write it, without the unit."""
    ends = bounds(s, quantity)
    return "-" if ends is None else " to ".join(f"{end:.{quantity.decimals}f}" for end in ends)


def mean(s: Summary | None, quantity: Quantity) -> str:
    """Return the mean with its interval for a table: as ±, or as two ends where ± would exceed a limit."""
    if s is None or s.margin is None:
        return "-" if s is None else quantity.text(s.mean)
    low, high = quantity.scaled(s.mean - s.margin), quantity.scaled(s.mean + s.margin)
    if bounds(s, quantity) != (low, high):
        return f"{quantity.text(s.mean)} ({interval(s, quantity)})"
    return f"{quantity.text(s.mean)} ± {quantity.text(s.margin)}"


def difference(s: Summary | None, quantity: Quantity) -> str:
    """Return the mean difference with its sign and interval, for a table."""
    if s is None:
        return "-"
    return quantity.text(s.mean, "+") + ("" if s.margin is None else f" ± {quantity.text(s.margin)}")


def in_units(quantity: Quantity) -> str:
    """Return the unit of differences in words; their sign, too, where lower values are better."""
    unit = "in points" if quantity.is_share else f"in {quantity.unit}" if quantity.unit else "as plain numbers"
    return unit + ("" if quantity.better == "higher" else ", positive where the value is lower")


def within(limits: tuple[float, float], quantity: Quantity) -> tuple[float, float]:
    """Return the limits of an axis, cut to the limits of the quantity."""
    low, high = quantity.limits
    return max(low, limits[0]), min(high, limits[1])
