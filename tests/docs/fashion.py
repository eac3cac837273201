"""The runs on Fashion-MNIST of docs/results/data/fashion, by encoding and seed."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class AtRate:
    """The reported runs of an encoding with one learning rate, by seed."""

    rate: str
    val: dict[int, float]
    test: dict[int, float]
    correct: dict[int, str]

    @classmethod
    def of(cls, runs: list[dict[str, Any]]) -> AtRate:
        (rate,) = {run["point"]["optimizer.lr"] for run in runs}
        val, test = ({run["seed"]: run["results"][part]["accuracy"] for run in runs} for part in ("val", "test"))
        return cls(rate, val, test, {run["seed"]: run["correct"] for run in runs})

    def validation(self) -> float:
        """Return the mean validation accuracy of the seeds that both rates have."""
        return statistics.fmean(self.val[seed] for seed in SECOND_SEEDS)

    def over(self, base: AtRate) -> Summary | None:
        return paired.gain_over(self.test, base.test, self.correct, base.correct, QUANTITY, SPREAD)


SECOND_SEEDS = (0, 1, 2)
FIRST = {name: AtRate.of([r for r in RUNS if r["encoding"] == name and r["seed"] != TUNING]) for name in VALUES}


def _second_rates() -> dict[str, AtRate]:
    """Return the runs with the better neighbor of the chosen rate, of the encodings that have all seeds of it."""
    content = json.loads((FOLDER.parent / "same_rate_fashion" / "compare.json").read_text())
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in [*content["runs"], *content["earlier_runs"]]:
        if run["results"] and not run["failed"]:
            runs[run["encoding"]].append(run)
    rows = {name: AtRate.of(runs[name]) for name in MAIN if len(runs[name]) >= len(SECOND_SEEDS)}
    return {name: row for name, row in rows.items() if set(SECOND_SEEDS) <= set(row.test)}


SECOND = _second_rates()


def validated_best(name: str) -> AtRate:
    """Return the runs of an encoding with that of its two rates whose mean validation accuracy is higher."""
    both = [FIRST[name], SECOND[name]] if name in SECOND else [FIRST[name]]
    return max(both, key=AtRate.validation)


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
