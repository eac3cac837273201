"""Trained models on larger images: accuracies at each size, and their tables (of extrapolate.json)."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ndformer.lab import extrapolate, extrapolate_table, markdown, paired
from ndformer.lab.interval import Summary
from tests.docs.reported import SPREAD_START, Reported, title

ByRow = dict[str, dict[Any, Any]]  # by encoding and seed


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
    summaries: dict[Any, Summary | None] = {}
    columns = [(size, way) for size in sizes for way in ("continued", "interpolated")]
    for size, way in columns:
        values, correct = (of(reported, size, way == "interpolated") for of in (at_size, correct_at))
        for name in values.keys() - {SPREAD_START}:
            pair, texts = ([rows[of] for of in (name, SPREAD_START)] for rows in (values, correct))
            if all(text for row in texts for text in row.values()):
                summaries[name, size, way] = paired.gain_over(*pair, *texts, reported.quantity)
            else:  # of an earlier version: seeds alone
                summaries[name, size, way] = Summary.from_difference(*([*row.values()] for row in pair))
    cells = reported.written(summaries)
    head = [f"{size}, {way}" for size, way in columns]
    names = [name for name in reported.ranked() if (name, *columns[0]) in cells]
    rows = [[title(name), *(cells[(name, *column)] for column in columns)] for name in names]
    return f"gain over PaPE spread in points\n\n{markdown.table(['encoding', *head], rows)}"
