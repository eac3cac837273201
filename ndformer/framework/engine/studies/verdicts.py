"""Whether measurements bear a claim out: by the 95 % interval of a mean or of a paired gain (Student's t).

A claim holds if all of the interval is on its side, does not hold if all is on the other, and is not told apart
otherwise.
"""

from collections.abc import Sequence

from ndformer.framework.engine.studies.experiment import Results, Verdict, Word
from ndformer.framework.engine.studies.interval import Summary


def ahead(
    results: Results, row: str, over: str, column: str, by: float = 0.0, over_column: str | None = None
) -> Verdict:
    """`row` has more than `over`, in another column if one is given, by more than `by`; paired by seed."""
    return _judged(results.gains(row, over, column, over_column), by, _pair(row, over, column, over_column), sign=True)


def above(results: Results, row: str, column: str, limit: float) -> Verdict:
    """The mean of `row` is above a limit."""
    return _judged(results.of(row, column), limit, f"{row} in {column}: ")


def below(results: Results, row: str, column: str, limit: float) -> Verdict:
    values = results.of(row, column)
    word = _judged([-value for value in values], -limit, "").word
    return Verdict(word, _figure(values, f"{row} in {column}: ", limit) if values else "")


def alike(
    results: Results, row: str, other: str, column: str, within: float, other_column: str | None = None
) -> Verdict:
    """Two rows differ by less than `within`, or one row in two columns."""
    gains = results.gains(row, other, column, other_column)
    if not gains:
        return Verdict("not measured")
    summary = Summary.of(gains)
    if summary.half is None:
        word: Word = "not told apart"
    elif abs(summary.mean) + summary.half < within:
        word = "holds"
    elif abs(summary.mean) - summary.half > within:
        word = "does not hold"
    else:
        word = "not told apart"
    return Verdict(word, _figure(gains, _pair(row, other, column, other_column), within, sign=True))


def each(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim in several parts: it holds where all do, and fails where one does."""
    words = [verdict.word for verdict in verdicts]
    order: tuple[Word, ...] = ("not measured", "does not hold", "not told apart", "holds")
    return Verdict(next(word for word in order if word in words), "; ".join(v.figure for v in verdicts if v.figure))


def _pair(row: str, other: str, column: str, other_column: str | None) -> str:
    beside = f" in {column}" if other_column in (None, column) else f" in {column} over {other_column}"
    return f"{row}{beside}: " if row == other else f"{row} over {other}{beside}: "


def _judged(values: Sequence[float], limit: float, name: str, sign: bool = False) -> Verdict:
    if not values:
        return Verdict("not measured")
    summary = Summary.of(values)
    figure = _figure(values, name, limit, sign)
    if summary.half is None:
        return Verdict("not told apart", figure)  # one seed tells nothing
    if summary.mean - summary.half > limit:
        return Verdict("holds", figure)
    return Verdict("does not hold" if summary.mean + summary.half <= limit else "not told apart", figure)


def _figure(values: Sequence[float], name: str, limit: float, sign: bool = False) -> str:
    summary = Summary.of(values)
    half = " (one seed, no interval)" if summary.half is None else f" ± {summary.half:.3g}"
    mean = f"{summary.mean:+.4g}" if sign else f"{summary.mean:.4g}"
    return f"{name}{mean}{half}" + (f" (against {limit:g})" if limit else "")
