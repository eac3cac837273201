"""Friedman test over data sets, with Nemenyi's critical difference of average ranks (Demsar 2006).

found = ranking({"PaPE": [0.97, 0.96, 0.87], "Sincos": [0.94, 0.70, 0.80]})     a score per data set, higher is better
found.ranks, found.p, found.apart                                               apart: by so much ranks must differ
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

ALPHA = 0.05
NORMAL = NormalDist()


@dataclass(frozen=True)
class Ranking:
    ranks: dict[str, float]  # average over the sets, the best first
    sets: int
    chi2: float  # Friedman's statistic, corrected for ties
    chi2_p: float
    f: float | None  # Iman and Davenport's, which is less conservative; None where all sets agree: there is no limit
    p: float
    apart: float  # Nemenyi's critical difference: average ranks that differ by less are not told apart
    groups: list[list[str]]  # the longest runs of such; all are one where p says that ranks may be of chance


def ranking(scores: Mapping[str, Sequence[float]]) -> Ranking:
    """Of at least two names on at least two sets."""
    table = np.array([ranks(row) for row in zip(*scores.values())])  # (sets, names)
    sets, names = table.shape
    middle = (names + 1) / 2
    spread = ((table - middle) ** 2).sum() / (names - 1)  # smaller where values are tied; 0 where all are
    chi2 = ((table.sum(0) - sets * middle) ** 2).sum() / spread if spread else 0.0
    left = sets * (names - 1) - chi2
    f = float((sets - 1) * chi2 / left) if left > 1e-9 else None
    p = 0.0 if f is None else f_tail(f, names - 1, (names - 1) * (sets - 1))
    average = dict(sorted(zip(scores, table.mean(0).tolist()), key=lambda item: item[1]))
    apart = critical_difference(names, sets)
    return Ranking(
        ranks=average,
        sets=sets,
        chi2=float(chi2),
        chi2_p=chi2_tail(float(chi2), names - 1),
        f=f,
        p=p,
        apart=apart,
        groups=groups(average, apart) if p < ALPHA else [list(average)],
    )


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the highest; equal values share the mean of their places."""
    return [1 + sum(other > own for other in values) + (values.count(own) - 1) / 2 for own in values]


def groups(average: Mapping[str, float], apart: float) -> list[list[str]]:
    """The longest runs of two or more, of names in the order of their ranks, whose ends differ by less than `apart`."""
    names = list(average)
    runs = [[b for b in names[i:] if average[b] - average[a] < apart] for i, a in enumerate(names)]
    return [run for i, run in enumerate(runs) if len(run) > 1 and (i == 0 or run[-1] != runs[i - 1][-1])]


def critical_difference(names: int, sets: int, alpha: float = ALPHA) -> float:
    return q(names, alpha) * math.sqrt(names * (names + 1) / (6 * sets))


@cache
def q(names: int, alpha: float = ALPHA) -> float:
    """Quantile of the studentized range at infinite degrees of freedom, over the root of 2."""
    low, high = 0.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if range_below(middle, names) < 1 - alpha else (low, middle)
    return low / math.sqrt(2)


def range_below(width: float, names: int) -> float:
    """P(the largest of so many standard normal numbers is less than `width` above the smallest)."""
    step = 0.05  # trapezoids: such an integrand, smooth and gone at both ends, wants no more
    at = [step * i for i in range(-180, 181)]  # the largest; the others are between it and `width` below
    between = ((NORMAL.pdf(z), NORMAL.cdf(z) - NORMAL.cdf(z - width)) for z in at)
    return step * names * math.fsum(density * share ** (names - 1) for density, share in between)


def chi2_tail(value: float, freedom: int) -> float:
    """P(a chi-square variable is larger): a finite sum (Abramowitz and Stegun 26.4.4-5)."""
    if value <= 0:
        return 1.0
    half, a = value / 2, 0.5 if freedom % 2 else 1.0
    total = math.erfc(math.sqrt(half)) if freedom % 2 else math.exp(-half)
    while a < freedom / 2:
        total += math.exp(a * math.log(half) - half - math.lgamma(a + 1))
        a += 1
    return total


def f_tail(value: float, above: int, below: int) -> float:
    """P(an F variable with these degrees of freedom is larger): an incomplete beta function, by Gauss and Legendre in
    the angle, where its integrand is smooth."""
    top = math.atan2(math.sqrt(below), math.sqrt(above * value))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angle = top * (nodes + 1) / 2
    beta = math.lgamma(above / 2) + math.lgamma(below / 2) - math.lgamma((above + below) / 2)
    density = np.exp((below - 1) * np.log(np.sin(angle)) + (above - 1) * np.log(np.cos(angle)) - beta)
    return float(top * (weights * density).sum())
