"""Runs of `ndformer compare` whose learning rate is chosen on a seed that is not reported, and tables of them."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scipy import stats

from ndformer.framework.quantity import Quantity
from ndformer.lab import interval, markdown, paired
from ndformer.lab.interval import Summary
from tests.docs import made

TUNING = 100  # the seed that points of the search are chosen on
SPREAD_START = "PaPE(init_radius='spread')"


class Reported:
    """The runs of a folder of docs/results/data, by encoding and seed.

    `main` are the main encodings, `planned` their numbers of seeds, `others` that of other encodings. The deviation
    of seeds is pooled over all encodings where Bartlett's test finds no difference between them.
    """

    def __init__(self, folder: str, main: Sequence[str], planned: int, others: int, left_out: str = "") -> None:
        self.folder = made.ROOT / "docs" / "results" / "data" / folder
        content = json.loads((self.folder / "compare.json").read_text())
        self.quantity, self.main = Quantity(**content["quantity"]), tuple(main)
        self.runs: list[dict[str, Any]] = [
            run
            for run in [*content["runs"], *content["earlier_runs"]]
            if run["results"] and not run["failed"] and run["encoding"] != left_out
        ]
        names = {run["encoding"] for run in self.runs}
        self.names = sorted(names, key=lambda name: (name not in main, name))
        self.planned = {name: planned if name in main else others for name in self.names}
        self.values = self.by_row(lambda run: run["results"]["test"]["accuracy"], reported=True)
        self.correct = self.by_row(lambda run: run["correct"], reported=True)
        self.tried = self.by_row(lambda run: run["results"]["val"]["accuracy"], reported=False)
        p = self.of_equal_spreads()
        self.spread = paired.pool(self.values.values()) if p is not None and p > paired.ALPHA else None

    def by_row(self, field: Callable[[dict[str, Any]], Any], reported: bool) -> dict[str, dict[Any, Any]]:
        """Return field(run) by encoding and seed, of the reported runs, or by encoding and point, of the search."""
        table: dict[str, dict[Any, Any]] = defaultdict(dict)
        for run in self.runs:
            if (run["seed"] != TUNING) == reported:
                table[run["encoding"]][run["seed"] if reported else point(run)] = field(run)
        return table

    def of_equal_spreads(self) -> float | None:
        """Return the p-value of Bartlett's test that seeds vary alike in all rows; None with fewer than two rows."""
        rows = [list(row.values()) for row in self.values.values() if len(row) > 1]
        return float(stats.bartlett(*rows).pvalue) if len(rows) > 1 else None

    def mean(self, name: str) -> Summary:
        return self.mean_of(list(self.values[name].values()))

    def mean_of(self, values: list[float]) -> Summary:
        """Return the mean with an interval from the spread of all rows, where it is pooled."""
        summary = Summary.from_values(values)
        if self.spread is None:
            return summary
        half = interval.student_t(self.spread.freedom) * math.sqrt(self.spread.variance / summary.n)
        return replace(summary, half=half)

    def gain(self, name: str, base: str) -> Summary | None:
        first, second = self.values[name], self.values[base]
        return paired.gain_over(first, second, self.correct[name], self.correct[base], self.quantity, self.spread)

    def ranked(self) -> list[str]:
        """Return the encodings with three reported runs or more, best first."""
        names = [name for name, values in self.values.items() if len(values) >= interval.ENOUGH]
        return sorted(names, key=lambda name: -statistics.fmean(self.values[name].values()))

    def written(self, gains: dict[Any, Summary | None]) -> dict[Any, str]:
        return written(gains, self.quantity)

    def core_minutes(self, reported: bool) -> float:
        return sum(sum(row.values()) for row in self.by_row(lambda run: run["results"]["minutes"], reported).values())

    def accuracies(self) -> str:
        """Return the table of test accuracies and gains over PaPE spread, and how many runs there are."""
        gains = self.written({name: self.gain(name, SPREAD_START) for name in self.values if name != SPREAD_START})
        params = self.by_row(lambda run: run["results"]["params"], reported=True)
        rows = []
        for name in self.ranked():
            summary = self.mean(name)
            seeds, (size,) = f"{summary.n} of {self.planned[name]}", set(params[name].values())
            sd = "" if summary.sd is None else self.quantity.text(summary.sd)
            accuracy = interval.mean(summary, self.quantity)
            rows.append([title(name), f"{size:,}", seeds, accuracy, sd, gains.get(name, "")])
        head = ["encoding", "parameters", "seeds", "accuracy %", "sd", "gain over PaPE spread"]
        done, planned = sum(map(len, self.values.values())), sum(self.planned.values())
        p = self.of_equal_spreads()
        note = (
            f"{done} of {planned} planned runs are finished; they took {self.core_minutes(reported=True):,.0f} "
            "core-minutes. "
        )
        if self.spread is not None:
            note += (
                f"Seeds have a standard deviation of {self.quantity.text(math.sqrt(self.spread.variance))} points, "
                f"pooled over all rows ({self.spread.freedom} degrees of freedom); Bartlett's test finds no difference "
                f"between rows (p = {p:.2f})."
            )
        elif p is not None:
            note += (
                f"Seeds of some rows vary more than those of others (Bartlett's test, p = {p:.2g}): nothing is pooled."
            )
        return f"\n{markdown.table(head, rows)}\n\n{note.strip()}\n\n"

    def pairs(self, limit: float | None = None) -> str:
        """Return the gains of the main rows over each other, and how many half-widths are below the limit in points."""
        names = [name for name in self.ranked() if name in self.main]
        gains = {(a, b): self.gain(a, b) for a, b in itertools.combinations(names, 2)}
        texts = self.written(gains)
        rows = [[title(a), *(texts.get((a, b), "") for b in names[1:])] for a in names[:-1]]
        halves = sorted(100 * gain.margin for gain in gains.values() if gain and gain.margin is not None)
        note = (
            f"The {len(halves)} half-widths are {halves[0]:.3f} to {halves[-1]:.3f} points, with a median of "
            f"{statistics.median(halves):.2f}"
        )
        below = "" if limit is None else f"; {sum(half < limit for half in halves)} are below {limit:g}"
        head = ["gain of", *("over " + title(name) for name in names[1:])]
        return f"\n{markdown.table(head, rows)}\n\n{note}{below}.\n\n"

    def search(self) -> str:
        """Return the table of validation accuracies in %, with the best of each encoding in bold.

        Columns are learning rates; an encoding has a row for each unit of positions that it was tried with.
        """
        rates = sorted({text.partition(", ")[0] for row in self.tried.values() for text in row}, key=float)
        rows = []
        for name in self.names:
            values = self.tried[name]
            units = sorted({text.partition(", ")[2] for text in values})
            best = max(values.values()) if len(values) == len(units) * len(rates) else None
            for unit in units:
                texts = {}
                for rate in rates:
                    value = values.get(f"{rate}, {unit}" if unit else rate)
                    bold = "**" if value == best else ""
                    texts[rate] = "" if value is None else f"{bold}{100 * value:.2f}{bold}"
                rows.append([title(name) + (f", unit {unit}" if unit else ""), *texts.values()])
        return markdown.table(["encoding", *rates], rows)


def title(name: str) -> str:
    return name if "(" in name else name.replace(", ", " + ")


def point(run: dict[str, Any]) -> str:
    """Return the values of the search that a run has, such as 0.002."""
    return ", ".join(run["point"].values())


def written(gains: dict[Any, Summary | None], quantity: Quantity) -> dict[Any, str]:
    """Return gains as texts, significant ones in bold."""
    signs = paired.significant(gains)
    texts = {key: interval.difference(value, quantity) for key, value in gains.items()}
    return {key: f"**{text}**" if signs[key] else text for key, text in texts.items()}
