"""Whether measurements bear a claim out: by the 95 % interval of a mean or of a paired gain (Student's t).

A claim holds if all of the interval is on its side, does not hold if all is on the other, and is not told apart
otherwise: so where all seeds are level, as two rows that never err. A fact that no seed changes (`exact`: an equation,
a number of parameters) has no interval: it holds or does not hold.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ndformer.lab.experiment import Results, Verdict, Word
from ndformer.lab.interval import Summary


def ahead(
    results: Results, row: str, over: str, column: str, by: float = 0.0, over_column: str | None = None
) -> Verdict:
    """`row` has more than `over`, in another column if one is given, by more than `by`; paired by seed."""
    return _judged(results.gains(row, over, column, over_column), by, _pair(row, over, column, over_column), sign=True)


def above(results: Results, row: str, column: str, limit: float, exact: bool = False) -> Verdict:
    """The mean of `row` is above a limit; of an `exact` fact, every value is, and one seed is enough."""
    return _judged(results.of(row, column), limit, f"{row} in {column}: ", exact=exact)


def below(results: Results, row: str, column: str, limit: float, exact: bool = False) -> Verdict:
    values = results.of(row, column)
    mirrored = _judged([-value for value in values], -limit, "", exact=exact)
    return replace(mirrored, figure=_figure(values, f"{row} in {column}: ", limit, exact=exact) if values else "")


def alike(
    results: Results, row: str, other: str, column: str, within: float, other_column: str | None = None
) -> Verdict:
    """Two rows differ by less than `within`, or one row in two columns."""
    gains = results.gains(row, other, column, other_column)
    if not gains:
        return Verdict("not measured")
    summary = Summary.of(gains)
    figure = _figure(gains, _pair(row, other, column, other_column), within, sign=True)
    return _verdict(within - abs(summary.mean), summary.half, figure)


def near(results: Results, row: str, column: str, to: float, within: float, exact: bool = False) -> Verdict:
    """The mean of `row` is off a number by less than `within`; of an `exact` fact, every value is."""
    values = results.of(row, column)
    if not values:
        return Verdict("not measured")
    summary, half = Summary.of(values), f" (against {to:g} ± {within:g})"
    figure = _figure(values, f"{row} in {column}: ", exact=exact) + half
    if not exact:
        return _verdict(within - abs(summary.mean - to), summary.half, figure)
    found = _verdict(within - abs(summary.mean - to), summary.half or 0.0, figure)
    return replace(found, word="holds" if max(abs(value - to) for value in values) < within else "does not hold")


def each(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim in several parts: it holds where all do, and fails where one does. It rests on that part of those with
    its word which speaks for it least; of two, on both."""
    words = Counter(verdict.word for verdict in verdicts)
    order: tuple[Word, ...] = ("not measured", "does not hold", "not told apart", "holds")
    word = next(word for word in order if words[word])
    least = min((verdict for verdict in verdicts if verdict.word == word), key=lambda verdict: verdict.sure)
    if len(verdicts) <= 2 or word == "not measured":
        return replace(least, figure="; ".join(v.figure for v in verdicts if v.figure))
    counts = [f"{bad}: {words[bad]} of {len(verdicts)}" for bad in order[1:3] if words[bad]]
    return replace(least, figure=f"{least.figure}; {', '.join(counts) or f'the closest of {len(verdicts)}'}")


def _pair(row: str, other: str, column: str, other_column: str | None) -> str:
    beside = f" in {column}" if other_column in (None, column) else f" in {column} over {other_column}"
    return f"{row}{beside}: " if row == other else f"{row} over {other}{beside}: "


def _judged(values: Sequence[float], limit: float, name: str, sign: bool = False, exact: bool = False) -> Verdict:
    if not values:
        return Verdict("not measured")
    summary, figure = Summary.of(values), _figure(values, name, limit, sign, exact)
    if not exact:
        return _verdict(summary.mean - limit, summary.half, figure)
    found = _verdict(summary.mean - limit, summary.half or 0.0, figure)
    return replace(found, word="holds" if min(values) > limit else "does not hold")


def _verdict(on_its_side: float, half: float | None, figure: str) -> Verdict:
    if half is None:
        return Verdict("not told apart", figure)  # one seed tells nothing
    sure = on_its_side / half if half else math.copysign(math.inf, on_its_side) if on_its_side else 0.0
    return Verdict("holds" if sure > 1 else "does not hold" if sure <= -1 else "not told apart", figure, sure)


def _figure(values: Sequence[float], name: str, limit: float = 0.0, sign: bool = False, exact: bool = False) -> str:
    summary = Summary.of(values)
    half = " (one seed, no interval)" * (not exact) if summary.half is None else f" ± {summary.half:.3g}"
    alike = (digits for digits in range(4, 17) if f"{summary.mean:.{digits}g}" != f"{limit:.{digits}g}")
    digits = next(alike, 4)  # as many as it takes to see on which side it is
    mean = f"{summary.mean:{'+' if sign else ''}.{digits}g}"
    return f"{name}{mean}{half}" + (f" (against {limit:.{digits}g})" if limit else "")
