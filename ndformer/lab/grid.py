"""Grid search: options with several values each, of which every encoding gets those that validate best.

points(["optimizer.lr=3e-4,1e-3", "model.backbone.drop_path=0,0.1"])     4 points, {key: value as text}
choose(outcomes)                                                         by validation alone, of runs on one seed
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ndformer.framework.engine.config.text import parse_choices, parse_option
from ndformer.framework.errors import ConfigError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.lab.compare import Outcome, as_options

Point = Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """The point of one row of the table, and how clear it was."""

    point: Point
    value: float  # what it validated with
    tied: list[Point]  # others that validated as well, later in the grid
    edges: list[str]  # where the grid ends at it: "optimizer.lr=0.003 is the largest tried"


def points(grid: Sequence[str]) -> list[dict[str, str]]:
    """The cross product of KEY=A,B options, in the order they have; one empty point of none."""
    values: dict[str, list[str]] = {}
    for option in grid:
        key, texts = parse_choices(option)
        if key in values:
            raise ConfigError(f"--grid gives {key} twice: write all its values in one, {key}=A,B")
        values[key] = list(dict.fromkeys(_plain(key, text) for text in texts))
    return [dict(zip(values, point)) for point in itertools.product(*values.values())]


def _plain(key: str, text: str) -> str:
    """Numbers in one way, so that 1e-3 and 0.001 are one value and one folder."""
    value = parse_option(f"{key}={text}")[1]
    if not isinstance(value, float):
        return text
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def choose(outcomes: Sequence[Outcome]) -> dict[tuple[str, int | None], Choice]:
    """For each row the point whose run validated best, the first of equals; a row of which no run came to an end has
    none."""
    rows: dict[tuple[str, int | None], list[Outcome]] = {}
    for one in outcomes:
        rows.setdefault(one.run.row, []).append(one)
    chosen = {}
    for row, tried in rows.items():
        main, quantity = main_metric(tried[0].run.cfg.metrics)
        values = [(one.results["val"][main], one.run.point) for one in tried if one.results and not one.failed]
        values = [(value, point) for value, point in values if math.isfinite(value)]
        if values:
            best, _ = values[quantity.best([value for value, _ in values])]
            point, *tied = [point for value, point in values if value == best]
            chosen[row] = Choice(point, best, tied, _edges(point, [one.run.point for one in tried]))
    return chosen


def _edges(point: Point, tried: Sequence[Point]) -> list[str]:
    found = []
    for key in point:
        values = {parse_option(f"{key}={one[key]}")[1] for one in tried if _number(key, one[key])}
        if len(values) < 2 or not _number(key, point[key]):
            continue
        own = parse_option(f"{key}={point[key]}")[1]
        if own in (min(values), max(values)):
            found.append(f"{key}={point[key]} is the {'largest' if own == max(values) else 'smallest'} tried")
    return found


def _number(key: str, text: str) -> bool:
    return type(parse_option(f"{key}={text}")[1]) in (int, float)


def describe_choices(tried: Sequence[Outcome]) -> str:
    """How points were chosen, for below the table."""
    run, chosen = tried[0].run, choose(tried)
    _, quantity = main_metric(run.cfg.metrics)
    values = {key: dict.fromkeys(one.run.point[key] for one in tried) for key in run.point}
    grid = "; ".join(f"{key} of {', '.join(texts)}" for key, texts in values.items())
    where = f"seed {run.seed}" if run.fold is None else f"seed {run.seed}, fold {run.fold}"
    notes = [f"{grid}: of these each encoding has what validated best on {where}. No test figure was looked at."]
    for row in dict.fromkeys(one.run.row for one in tried):
        name = row[0] if row[1] is None else f"{row[0]}, {row[1]} per class"
        if row not in chosen:
            notes.append(f"- {name}: no run of the grid came to an end, so the others have its first point.")
            continue
        choice = chosen[row]
        if choice.tied:
            alike = " and ".join(", ".join(as_options(point)) for point in [choice.point, *choice.tied])
            notes.append(
                f"- {name}: {alike} validated alike, {quantity.log_text(choice.value)}: the first as given is taken."
            )
        notes += [f"- {name}: {edge}. A wider grid may have a better one." for edge in choice.edges]
    return "\n".join(notes) + "\n"
