"""The runs on Fashion-MNIST: with the rate of the search, with a second one, and on larger images."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from ndformer.lab import paired
from ndformer.lab.interval import Summary
from tests.docs.reported import SPREAD_START, TUNING, Reported

MAIN = ("NoPE", "Sincos", "LearnableAbsolute(grid=7)", "AxialRoPE", "RoPEMixed", "ALiBi", SPREAD_START, "PaPECompact")
# without one run with the default table, from before the row got a table of the grid's size
FASHION = Reported("fashion", MAIN, planned=5, others=3, left_out="LearnableAbsolute")
FASHION.planned["NoPE"] = 6  # one was added for the width of an interval


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
        return paired.gain_over(self.test, base.test, self.correct, base.correct, FASHION.quantity, FASHION.spread)


SECOND_SEEDS = (0, 1, 2)
FIRST = {
    name: AtRate.of([run for run in FASHION.runs if run["encoding"] == name and run["seed"] != TUNING])
    for name in FASHION.values
}


def _second_rates() -> dict[str, AtRate]:
    """Return the runs with the better neighbor of the chosen rate, of the encodings that have all seeds of it."""
    content = json.loads((FASHION.folder.parent / "same_rate_fashion" / "compare.json").read_text())
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
