"""The runs on Fashion-MNIST of docs/results/data/fashion, by encoding and seed."""

import json
import math
import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from ndformer.framework.quantity import Quantity
from ndformer.lab import extrapolate, extrapolate_table, interval, paired
from ndformer.lab.interval import Summary
from tests.docs import made

FOLDER = made.ROOT / "docs" / "results" / "data" / "fashion"
TUNING = 100  # the seed that rates are chosen on
BASELINE = "PaPE(init_radius='spread')"
MAIN = ("NoPE", "Sincos", "LearnableAbsolute(grid=7)", "AxialRoPE", "RoPEMixed", "ALiBi", BASELINE, "PaPECompact")
PLANNED: dict[str, int] = dict.fromkeys(MAIN, 5)  # seeds; others have 3
CONTENT = json.loads((FOLDER / "compare.json").read_text())
QUANTITY = Quantity(**CONTENT["quantity"])
NOT_A_ROW = "LearnableAbsolute"  # one run with the default table, before the row got a table of the grid's size
RUNS: list[dict[str, Any]] = [
    run
    for run in [*CONTENT["runs"], *CONTENT["earlier_runs"]]
    if run["results"] and not run["failed"] and run["encoding"] != NOT_A_ROW
]
NAMES = sorted({run["encoding"] for run in RUNS}, key=lambda name: (name not in MAIN, name))


def title(name: str) -> str:
    return name if "(" in name else name.replace(", ", " + ")


def by_row(field: Any, reported: bool) -> dict[str, dict[Any, Any]]:
    """Return field(run) by encoding and seed, of the reported runs, or by encoding and rate, of the tuning runs."""
    table: dict[str, dict[Any, Any]] = defaultdict(dict)
    for run in RUNS:
        if (run["seed"] != TUNING) == reported:
            table[run["encoding"]][run["seed"] if reported else run["point"]["optimizer.lr"]] = field(run)
    return table


VALUES = by_row(lambda run: run["results"]["test"]["accuracy"], reported=True)
CORRECT = by_row(lambda run: run["correct"], reported=True)
TRIED = by_row(lambda run: run["results"]["val"]["accuracy"], reported=False)
SPREAD = paired.pool(VALUES.values())


def mean(name: str) -> Summary:
    """Return the mean accuracy, with an interval from the spread of all rows."""
    return mean_of(list(VALUES[name].values()))


def mean_of(values: list[float]) -> Summary:
    summary = Summary.from_values(values)
    return replace(summary, half=interval.student_t(SPREAD.freedom) * math.sqrt(SPREAD.variance / summary.n))


def gain(name: str, base: str) -> Summary | None:
    return paired.gain_over(VALUES[name], VALUES[base], CORRECT[name], CORRECT[base], QUANTITY, SPREAD)


def _other_rate() -> dict[str, dict[int, dict[str, Any]]]:
    """Return the runs with a rate that the search did not choose, by encoding and seed, of those with three seeds."""
    content = json.loads((FOLDER.parent / "same_rate_fashion" / "compare.json").read_text())
    runs: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for run in [*content["runs"], *content["earlier_runs"]]:
        if run["results"] and not run["failed"]:
            runs[run["encoding"]][run["seed"]] = run
    return {name: by_seed for name, by_seed in runs.items() if len(by_seed) >= interval.ENOUGH}


OTHER_RATE = _other_rate()


def other_rate_gain(name: str, base: str) -> Summary | None:
    """Return the gain of an encoding with the other rate over one with the rate of the search."""
    values = {seed: run["results"]["test"]["accuracy"] for seed, run in OTHER_RATE[name].items()}
    correct = {seed: run["correct"] for seed, run in OTHER_RATE[name].items()}
    return paired.gain_over(values, VALUES[base], correct, CORRECT[base], QUANTITY, SPREAD)


def written(gains: dict[Any, Summary | None], quantity: Quantity = QUANTITY) -> dict[Any, str]:
    """Return gains as texts, significant ones in bold."""
    signs = paired.significant(gains)
    texts = {key: interval.difference(value, quantity) for key, value in gains.items()}
    return {key: f"**{text}**" if signs[key] else text for key, text in texts.items()}


def ranked() -> list[str]:
    """Return the encodings with three reported runs or more, best first."""
    names = [name for name, values in VALUES.items() if len(values) >= interval.ENOUGH]
    return sorted(names, key=lambda name: -statistics.fmean(VALUES[name].values()))


def larger_runs() -> list[extrapolate.Tested]:
    """Return the runs on larger images, with the names of the rows: there init_radius is a number."""
    rows_of = {Path(run["folder"]).name: run["encoding"] for run in RUNS}
    runs = extrapolate_table.add_earlier([], FOLDER)
    return [replace(run, encoding=rows_of[Path(run.checkpoint).parent.name]) for run in runs]


def at_size(size: int, interpolated: bool) -> dict[str, dict[int, float]]:
    """Return the test accuracy at a size, by encoding and seed."""
    table: dict[str, dict[int, float]] = defaultdict(dict)
    for run in larger_runs():
        for figure in run.figures:
            if (figure.size, figure.interpolated) == (size, interpolated):
                table[run.encoding][run.seed] = figure.test["accuracy"]
    return table
