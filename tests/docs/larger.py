"""Trained models on larger images: accuracies at each size, and their tables (of extrapolate.json)."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ndformer.lab import extrapolate, extrapolate_table, markdown, paired
from ndformer.lab.interval import Summary
from tests.docs.reported import SPREAD_START, Reported, title

ByRow = dict[str, dict[Any, Any]]  # by encoding and seed


@cache
def runs_of(reported: Reported) -> list[extrapolate.Tested]:
    """Return the runs on larger images, with the names of the rows: there init_radius is a number."""
    rows_of = {Path(run["folder"]).name: run["encoding"] for run in reported.runs}
    runs = extrapolate_table.add_earlier([], reported.folder)
    return [replace(run, encoding=rows_of[Path(run.checkpoint).parent.name]) for run in runs]


def sides(reported: Reported) -> list[int]:
    """Return the sides of the images in pixels, that of training first."""
    return sorted({int(figure.size) for run in runs_of(reported) for figure in run.figures})


def at_size(reported: Reported, size: int, interpolated: bool) -> ByRow:
    """Return the test accuracy at a size."""
    return _by_row(reported, size, interpolated, lambda figure: figure.test["accuracy"])


def correct_at(reported: Reported, size: int, interpolated: bool) -> ByRow:
    """Return which test samples are right at a size, as text."""
    return _by_row(reported, size, interpolated, lambda figure: figure.correct)


def _by_row(reported: Reported, size: int, interpolated: bool, field: Callable[[extrapolate.Figure], Any]) -> ByRow:
    table: ByRow = defaultdict(dict)
    for run in runs_of(reported):
        for figure in run.figures:
            if (figure.size, figure.interpolated) == (size, interpolated):
                table[run.encoding][run.seed] = field(figure)
    return table


def gain_at(reported: Reported, size: int, interpolated: bool, name: str, base: str) -> Summary | None:
    """Return the gain over a base at a size, over seeds and test samples; over seeds where samples are unknown."""
    values, correct = (of(reported, size, interpolated) for of in (at_size, correct_at))
    ours, theirs = (values[one] for one in (name, base))
    texts = correct[name], correct[base]
    if all(text for row in texts for text in row.values()):
        return paired.gain_over(ours, theirs, *texts, reported.quantity)
    return Summary.from_difference([*ours.values()], [*theirs.values()])


def tables(reported: Reported) -> str:
    """Return the tables of all sizes, positions continued and interpolated, and the gains at the larger ones."""
    runs = runs_of(reported)
    rows, sizes = extrapolate_table.summarize(runs), sides(reported)
    ranks = {name: rank for rank, name in enumerate(reported.ranked())}
    rows = {(title(key[0]), *key[1:]): rows[key] for key in sorted(rows, key=lambda key: ranks[key[0]])}
    text = extrapolate_table.text(rows, sizes, "accuracy", reported.quantity, str(sizes[0]))
    return f"\n{text}\n{gains(reported, sizes[1:])}\n\n"


def gains(reported: Reported, sizes: list[int]) -> str:
    """Return the table of gains over PaPE spread."""
    columns = [(size, way) for size in sizes for way in ("continued", "interpolated")]
    others = [name for name in reported.ranked() if name != SPREAD_START and name in at_size(reported, sizes[0], False)]
    cells = reported.written(
        {
            (name, size, way): gain_at(reported, size, way == "interpolated", name, SPREAD_START)
            for name in others
            for size, way in columns
        }
    )
    head = [f"{size}, {way}" for size, way in columns]
    rows = [[title(name), *(cells[(name, *column)] for column in columns)] for name in others]
    return f"gain over PaPE spread in points\n\n{markdown.table(['encoding', *head], rows)}"
