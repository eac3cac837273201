"""Trained models on larger images: accuracies at each size, and their tables (of extrapolate.json)."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from ndformer.lab import extrapolate, extrapolate_table, markdown
from ndformer.lab.interval import Summary
from tests.docs.reported import SPREAD_START, Reported, title


def runs_of(reported: Reported) -> list[extrapolate.Tested]:
    """Return the runs on larger images, with the names of the rows: there init_radius is a number."""
    rows_of = {Path(run["folder"]).name: run["encoding"] for run in reported.runs}
    runs = extrapolate_table.add_earlier([], reported.folder)
    return [replace(run, encoding=rows_of[Path(run.checkpoint).parent.name]) for run in runs]


def sides(reported: Reported) -> list[int]:
    """Return the sides of the images in pixels, that of training first."""
    return sorted({int(figure.size) for run in runs_of(reported) for figure in run.figures})


def at_size(reported: Reported, size: int, interpolated: bool) -> dict[str, dict[int, float]]:
    """Return the test accuracy at a size, by encoding and seed."""
    table: dict[str, dict[int, float]] = defaultdict(dict)
    for run in runs_of(reported):
        for figure in run.figures:
            if (figure.size, figure.interpolated) == (size, interpolated):
                table[run.encoding][run.seed] = figure.test["accuracy"]
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
    columns = {
        (size, way): at_size(reported, size, way == "interpolated")
        for size in sizes
        for way in ("continued", "interpolated")
    }
    summaries: dict[Any, Summary | None] = {
        (name, *column): Summary.from_difference([*rows[name].values()], [*rows[SPREAD_START].values()])
        for column, rows in columns.items()
        for name in rows
        if name != SPREAD_START
    }
    texts = reported.written(summaries)
    head = [f"{size}, {way}" for size, way in columns]
    names = [name for name in reported.ranked() if any((name, *column) in texts for column in columns)]
    rows = [[title(name), *(texts.get((name, *column), "") for column in columns)] for name in names]
    return f"gain over PaPE spread in points\n\n{markdown.table(['encoding', *head], rows)}"
