"""Claims as data, and their verdicts by the 95 % interval of a mean (Student's t) or of a gain.

    ahead("A is ahead of both others on each set", "A", ["B", "C"], ["digits", "signs"], by=1)
    below("random labels are guessed", "random labels", ["digits", "signs"], 20)

A claim is supported if the whole interval is on its side of the limit, contradicted if the whole interval is on the
other side, and inconclusive otherwise, also where all seeds give the same value as the limit. A fact that no seed
changes (`exact`: an equation, a number of parameters) needs no interval: it is supported or contradicted.

Runs of two rows are independent, also those of the same seed: a gain has Welch's interval, as in paired.py. Gains are
paired by seed in columns whose samples the seed draws, and where both numbers are of one row (Experiment.paired).

A claim with k checks is supported if all are, which needs no correction. Once all are measured, it is contradicted if
one is, and the more checks it has, the more often one of them is by chance: each is contradicted by its interval at
1 - 0.05 / k, which is Holm's first step. An inconclusive claim has the number of seeds that would decide each of its
checks, taken alone, in 80 % of cases, if means and standard deviations stay as they are.
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ndformer.lab.interval import Summary, student_t, welch
from ndformer.lab.power import POWER, seeds_needed
from ndformer.lab.results import Results

ERROR = 0.05  # of a 95 % interval
Word = Literal["supported", "contradicted", "inconclusive", "not measured"]
Names = str | Iterable[str]
Columns = str | Iterable[str | tuple[str, str]]  # a pair: the gain of the first column over the second


@dataclass(frozen=True)
class Verdict:
    """The verdict of a claim, and the numbers behind it."""

    word: Word
    evidence: str = ""  # row, column, mean, interval and limit
    effect: str = ""  # mean and interval
    margin: float = 0.0  # half intervals between the mean and the limit; below 0 on the side that contradicts the claim
    seeds: int | None = None  # that would decide an inconclusive claim; None: unknown, or more than power.MAX_SEEDS


@dataclass(frozen=True)
class Check:
    """One comparison of a claim: the mean of a row in a column, or its gain over another row, against a limit."""

    rule: Literal["above", "below", "within"]
    row: str
    column: str
    limit: float
    over: str = ""  # the row that gains are over
    over_column: str = ""
    target: float | None = None  # from which `within` measures; a gain is measured from 0
    exact: bool = False

    def judge(self, results: Results, checks: int = 1, paired: bool = True) -> Verdict:
        """Return the verdict of this check, one of as many `checks` of a claim; `paired`: its gains are by seed."""
        values = results.column(self.row, self.column)
        base = results.column(self.over, self.over_column) if self.over else None
        independent = base is not None and self.row != self.over and not paired
        if base is not None and not independent:
            values = results.gains(self.row, self.over, self.column, self.over_column)
        if not values or base == []:
            return Verdict("not measured")
        summary = Summary.from_difference(values, base or []) if independent else Summary.from_values(values)
        distance, half = self._distance(summary.mean), summary.half
        rounding = 1e-12 * max(1.0, abs(summary.mean))
        distance = 0.0 if abs(distance) <= rounding else distance
        if self.over and not independent and half is not None and half <= rounding:
            half = self._unpaired(results, summary.n)
            summary = replace(summary, half=half)
        evidence, effect = self._evidence(summary)
        if half is None and not self.exact:
            return Verdict("inconclusive", evidence, effect)
        freedom = welch(values, base)[1] if independent and base and half is not None else summary.n - 1
        margin = distance / half if half else math.copysign(math.inf, distance) if distance else 0.0
        if self.exact:
            word = "supported" if min(map(self._distance, values)) > 0 else "contradicted"
        else:
            wider = _widening(freedom, checks)
            word = "supported" if margin > 1 else "contradicted" if margin <= -wider else "inconclusive"
        seeds = None
        if word == "inconclusive" and summary.sd:
            power = 0.9 if self.rule == "within" and distance > 0 else POWER  # an interval ends at two sides
            confidence = 1 - ERROR / (checks if distance < 0 else 1)
            per_seed = freedom / (summary.n - 1)
            seeds = seeds_needed(distance, summary.sd, confidence=confidence, power=power, freedom_per_seed=per_seed)
        return Verdict(word, evidence, effect, margin, seeds)

    def _unpaired(self, results: Results, seeds: int) -> float:
        """Return half the interval of a gain that all seeds share: such gains come from the resolution of a test set.

        They have the spread of the runs themselves, which is 0 for values that no seed changes.
        """
        columns = (self.row, self.column), (self.over, self.over_column)
        spreads = [Summary.from_values(results.column(*one)).sd or 0.0 for one in columns]
        return student_t(seeds - 1) * math.hypot(*spreads) / math.sqrt(seeds)

    def _distance(self, value: float) -> float:
        """Return the distance from the limit, above 0 on the claim's side."""
        if self.rule == "within":
            return self.limit - abs(value - (self.target or 0.0))
        return value - self.limit if self.rule == "above" else self.limit - value

    def _evidence(self, summary: Summary) -> tuple[str, str]:
        """Return the evidence, and the effect in it."""
        pair = f" over {self.over}" if self.over not in ("", self.row) else ""
        columns = self.column if self.over_column in ("", self.column) else f"{self.column} over {self.over_column}"
        half = " (one seed, no interval)" * (not self.exact) if summary.half is None else f" ± {summary.half:.3g}"
        limit = self.limit if self.target is None else 0.0
        # as many digits as it takes to see on which side of the limit the mean is
        differs = (n for n in range(4, 17) if f"{summary.mean:.{n}g}" != f"{limit:.{n}g}")
        digits = next(differs, 4)
        against = f" (limit {limit:.{digits}g})" if limit else ""
        against = against if self.target is None else f" (target {self.target:g} ± {self.limit:g})"
        effect = f"{summary.mean:{'+' * bool(self.over)}.{digits}g}{half}{against}"
        return f"{self.row}{pair} in {columns}: {effect}", effect


@dataclass(frozen=True)
class Claim:
    """A sentence and the checks that all have to support it."""

    text: str  # in our words, with its place; "control: ..." and "ours: ..." are not in the paper
    checks: tuple[Check, ...]

    @property
    def is_from_paper(self) -> bool:
        return not self.text.startswith(("control:", "ours:", "ours, "))

    def judge(self, results: Results, paired: Collection[str] | None = None) -> Verdict:
        """Return the verdict: supported if all checks are, contradicted if one is. The evidence is the check with this
        word that supports the claim least; both of two. Gains in the columns `paired` are by seed; None: in all."""
        is_paired = lambda check: paired is None or not {check.column, check.over_column}.isdisjoint(paired)
        verdicts = [check.judge(results, len(self.checks), is_paired(check)) for check in self.checks]
        words = Counter(verdict.word for verdict in verdicts)
        order: tuple[Word, ...] = ("not measured", "contradicted", "inconclusive", "supported")
        word = next(word for word in order if words[word])
        weakest = min((verdict for verdict in verdicts if verdict.word == word), key=lambda verdict: verdict.margin)
        weakest = replace(weakest, seeds=_deciding_seeds(verdicts) if word == "inconclusive" else None)
        if len(verdicts) <= 2 or word == "not measured":
            return replace(weakest, evidence="; ".join(v.evidence for v in verdicts if v.evidence))
        counts = [f"{bad}: {words[bad]} of {len(verdicts)}" for bad in order[1:3] if words[bad]]
        counts = counts or [f"the closest of {len(verdicts)}"]
        return replace(weakest, evidence=f"{weakest.evidence}; {', '.join(counts)}")


def _widening(freedom: float, checks: int) -> float:
    """Return the width of the interval at 1 - 0.05 / checks relative to that at 95 %."""
    if freedom < 1 or checks == 1:
        return 1.0
    return student_t(freedom, 1 - ERROR / checks) / student_t(freedom)


def _deciding_seeds(verdicts: Sequence[Verdict]) -> int | None:
    """Return the seeds that would decide an inconclusive claim.

    One check decides it if its mean contradicts the claim; otherwise the claim needs all checks.
    """
    undecided = [verdict for verdict in verdicts if verdict.word == "inconclusive"]
    against = [verdict.seeds for verdict in undecided if verdict.margin < 0 and verdict.seeds is not None]
    if against:
        return min(against)
    needed = [verdict.seeds for verdict in undecided if verdict.seeds is not None]
    return max(needed) if len(needed) == len(undecided) else None


def ahead(text: str, rows: Names, over: Names, columns: Columns, by: float = 0.0) -> Claim:
    """Claim that each row has more than each of `over` by more than `by`, in each column."""
    return Claim(text, tuple(_gains("above", rows, over, columns, by)))


def alike(text: str, rows: Names, over: Names, columns: Columns, within: float) -> Claim:
    """Claim that each row differs from each of `over` by less than `within`, in each column."""
    return Claim(text, tuple(_gains("within", rows, over, columns, within)))


def above(text: str, rows: Names, columns: Names, limit: float, exact: bool = False) -> Claim:
    """Claim that the mean of each row is above the limit in each column; of an `exact` fact, every value is."""
    return Claim(text, tuple(Check("above", row, column, limit, exact=exact) for row, column in _pairs(rows, columns)))


def below(text: str, rows: Names, columns: Names, limit: float, exact: bool = False) -> Claim:
    """Claim that the mean of each row is below the limit in each column; of an `exact` fact, every value is."""
    return Claim(text, tuple(Check("below", row, column, limit, exact=exact) for row, column in _pairs(rows, columns)))


def inside(text: str, rows: Names, columns: Names, low: float, high: float) -> Claim:
    """Claim that the mean of each row is above one limit and below another one, in each column."""
    return combine(text, [above("", rows, columns, low), below("", rows, columns, high)])


def close_to(text: str, rows: Names, columns: Names, to: float, within: float, exact: bool = False) -> Claim:
    """Claim that the mean of each row differs from a number by less than `within`, in each column."""
    checks = (Check("within", row, column, within, target=to, exact=exact) for row, column in _pairs(rows, columns))
    return Claim(text, tuple(checks))


def combine(text: str, claims: Iterable[Claim]) -> Claim:
    """Claim all of these at once."""
    return Claim(text, tuple(check for claim in claims for check in claim.checks))


def _gains(
    rule: Literal["above", "within"], rows: Names, over: Names, columns: Columns, limit: float
) -> Iterator[Check]:
    for row, other in _pairs(rows, over):
        for column in [columns] if isinstance(columns, str) else columns:
            first, second = (column, column) if isinstance(column, str) else column
            yield Check(rule, row, first, limit, other, second)


def _pairs(first: Names, second: Names) -> Iterator[tuple[str, str]]:
    left, right = ([names] if isinstance(names, str) else list(names) for names in (first, second))
    return itertools.product(left, right)
