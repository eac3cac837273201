"""The Friedman test over data sets, with Nemenyi's critical difference of average ranks (Demsar 2006).

found = ranking({"PaPE": [0.97, 0.96, 0.87], "Sincos": [0.94, 0.70, 0.80]})     a score per data set, higher is better
found.ranks, found.p, found.critical      ranks that differ by less than `critical` are not significantly different
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05
DRAWS = 100_000


@dataclass(frozen=True)
class Ranking:
    """Average ranks, and whether they differ significantly."""

    ranks: dict[str, float]  # average over the sets, the best first
    sets: int
    chi2: float  # Friedman's statistic, corrected for ties
    p: float  # the probability of such a chi2 if each set had its ranks in a random order
    critical: float  # Nemenyi's critical difference: ranks that differ by less do not differ significantly
    groups: list[list[str]]  # the longest runs without a significant difference; one group if p is above ALPHA


def ranking(scores: Mapping[str, Sequence[float]]) -> Ranking:
    """Rank at least two names on at least two data sets."""
    from scipy.stats import rankdata  # imported here because it takes half a second

    table = rankdata(-np.array(list(scores.values())).T, axis=1)  # (sets, names); ties get their mean rank
    sets, names = table.shape
    middle = (names + 1) / 2
    spread = ((table - middle) ** 2).sum() / (names - 1)  # smaller with ties; 0 if all values are tied
    chi2 = ((table.sum(0) - sets * middle) ** 2).sum() / spread if spread else 0.0
    agree = chi2 > sets * (names - 1) - 1e-9
    p = _agreement(table) if agree else _by_chance(table)
    average = dict(sorted(zip(scores, table.mean(0).tolist()), key=lambda item: item[1]))
    critical = critical_difference(names, sets)
    return Ranking(
        ranks=average,
        sets=sets,
        chi2=float(chi2),
        p=p,
        critical=critical,
        groups=groups(average, critical) if p < ALPHA else [list(average)],
    )


def _by_chance(table: NDArray[np.float64]) -> float:
    """Return the share of random orders within the sets whose average ranks differ at least as much.

    The distributions of chi2 and F hold for many sets: of two sets of five names with one swap, F has p = 0.007
    instead of 0.042.
    """
    rng, middle = np.random.default_rng(0), table.mean()
    spread = lambda tables: ((tables.sum(-2) - len(table) * middle) ** 2).sum(-1)
    observed, as_large, chunk = spread(table), 0, max(1, DRAWS // 10)
    for start in range(0, DRAWS, chunk):
        draws = np.broadcast_to(table, (min(chunk, DRAWS - start), *table.shape))
        as_large += int((spread(rng.permuted(draws, axis=-1)) >= observed - 1e-9).sum())
    return (as_large + 1) / (DRAWS + 1)


def _agreement(table: NDArray[np.float64]) -> float:
    """Return the probability that sets in random orders all agree, which is often too small for random orders.

    Each set has one of n! / (t! ...) orders, where t names share a rank; all but the first have to repeat that order.
    """
    sets, names = table.shape
    _, tied = np.unique(table[0], return_counts=True)
    orders = math.factorial(names) / math.prod(math.factorial(count) for count in tied.tolist())
    return orders ** (1 - sets)


def groups(average: Mapping[str, float], critical: float) -> list[list[str]]:
    """Return the longest runs of names, in the order of ranks, whose ends differ by less than `critical`."""
    names = list(average)
    runs = [[b for b in names[i:] if average[b] - average[a] < critical] for i, a in enumerate(names)]
    return [run for i, run in enumerate(runs) if len(run) > 1 and (i == 0 or run[-1] != runs[i - 1][-1])]


def critical_difference(names: int, sets: int, alpha: float = ALPHA) -> float:
    return nemenyi_q(names, alpha) * math.sqrt(names * (names + 1) / (6 * sets))


@cache
def nemenyi_q(names: int, alpha: float = ALPHA) -> float:
    """Return the quantile of the studentized range at infinite degrees of freedom, over the square root of 2."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - alpha, names, math.inf)) / math.sqrt(2)
