"""Grid search: each encoding gets the option values that validate best.

points(["optimizer.lr=3e-4,1e-3", "model.backbone.drop_path=0,0.1"])     4 points, {key: value as text}
choose(outcomes)                                                         by validation alone, the mean over their seeds
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ndformer.framework.engine.config.text import parse_choices, parse_option
from ndformer.framework.errors import ConfigError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.lab.compare import Outcome, as_options

Point = Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """The chosen point of one row of the table."""

    point: Point
    value: float  # the main metric on validation
    tied: list[Point]  # other points with the same value, later in the grid
    edges: list[str]  # options at an end of the grid: "optimizer.lr=0.003 is the largest tried"


def points(grid: Sequence[str]) -> list[dict[str, str]]:
    """Return the cross product of KEY=A,B options; without options, one empty point."""
    values: dict[str, list[str]] = {}
    for option in grid:
        key, texts = parse_choices(option)
        if key in values:
            raise ConfigError(f"--grid gives {key} twice: write all its values in one option, {key}=A,B")
        values[key] = list(dict.fromkeys(_plain(key, text) for text in texts))
    return [dict(zip(values, point)) for point in itertools.product(*values.values())]


def _plain(key: str, text: str) -> str:
    """Return a number in one spelling, so that 1e-3 and 0.001 are the same value and folder."""
    value = parse_option(f"{key}={text}")[1]
    if not isinstance(value, float):
        return text
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def choose(outcomes: Sequence[Outcome]) -> dict[tuple[str, int | None], Choice]:
    """Return for each row the point that validates best, the first of equals; no point if no run has finished.

    With several seeds the mean counts, and a point with a missing seed does not.
    """
    rows: dict[tuple[str, int | None], list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.run.row, []).append(outcome)
    chosen = {}
    for row, tried in rows.items():
        main, quantity = main_metric(tried[0].run.cfg.metrics)
        by_point: dict[str, list[Outcome]] = {}
        for outcome in tried:
            by_point.setdefault(repr(outcome.run.point), []).append(outcome)
        values = [
            (statistics.fmean(outcome.results["val"][main] for outcome in runs if outcome.results), runs[0].run.point)
            for runs in by_point.values()
            if all(outcome.results and not outcome.failed for outcome in runs)
        ]
        values = [(value, point) for value, point in values if math.isfinite(value)]
        if values:
            best, _ = values[quantity.best([value for value, _ in values])]
            point, *tied = [point for value, point in values if value == best]
            chosen[row] = Choice(point, best, tied, _edges(point, [outcome.run.point for outcome in tried]))
    return chosen


def _edges(point: Point, tried: Sequence[Point]) -> list[str]:
    """Return the options whose value is the smallest or largest of several numbers."""
    notes = []
    for key, text in point.items():
        numbers = {number for trial in tried if (number := _number(key, trial[key])) is not None}
        chosen_number = _number(key, text)
        if len(numbers) > 1 and chosen_number in (min(numbers), max(numbers)):
            notes.append(f"{key}={text} is the {'largest' if chosen_number == max(numbers) else 'smallest'} tried")
    return notes


def _number(key: str, text: str) -> float | None:
    value = parse_option(f"{key}={text}")[1]
    return value if type(value) in (int, float) else None


def describe_choices(tried: Sequence[Outcome], options: Sequence[str] = ()) -> str:
    """Return the notes on how points were chosen, by runs with these options."""
    run, chosen = tried[0].run, choose(tried)
    _, quantity = main_metric(run.cfg.metrics)
    values = {key: dict.fromkeys(outcome.run.point[key] for outcome in tried) for key in run.point}
    grid = "; ".join(f"{key} of {', '.join(texts)}" for key, texts in values.items())
    seeds = list(dict.fromkeys(str(outcome.run.seed) for outcome in tried))
    where = f"seed{'s' * (len(seeds) > 1)} {' and '.join(seeds)}" + ("" if run.fold is None else f", fold {run.fold}")
    where += f", with {' '.join(options)}" * bool(options)
    notes = [f"{grid}: each encoding has the values that validated best on {where}. Test results were not used."]
    for row in dict.fromkeys(outcome.run.row for outcome in tried):
        name = row[0] if row[1] is None else f"{row[0]}, {row[1]} per class"
        if row not in chosen:
            notes.append(f"- {name}: no run of the grid has finished, so its other seeds use the first point.")
            continue
        choice = chosen[row]
        if choice.tied:
            alike = " and ".join(", ".join(as_options(point)) for point in [choice.point, *choice.tied])
            notes.append(
                f"- {name}: {alike} validated alike, {quantity.log_text(choice.value)}: the first in the grid is used."
            )
        notes += [f"- {name}: {edge}. A wider grid may have a better one." for edge in choice.edges]
    return "\n".join(notes) + "\n"
