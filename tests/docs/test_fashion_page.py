"""docs/results/fashion-mnist.md: its tables (`python -m tests.docs.test_fashion_page` writes them)."""

import itertools
import json
import math
import statistics
from collections import defaultdict
from typing import Any

import pytest

from ndformer.framework.quantity import Quantity
from ndformer.lab import interval, markdown, paired
from ndformer.lab.interval import Summary
from tests.docs import made

PAGE = "docs/results/fashion-mnist.md"
FILE = made.ROOT / "docs" / "results" / "data" / "fashion" / "compare.json"
TUNING = 100  # the seed that rates are chosen on
BASELINE = "PaPE(init_radius='spread')"
MAIN = ("NoPE", "Sincos", "LearnableAbsolute(grid=7)", "AxialRoPE", "RoPEMixed", "ALiBi", BASELINE, "PaPECompact")
PLANNED = dict.fromkeys(MAIN, 5)  # seeds; others have 3
CONTENT = json.loads(FILE.read_text())
QUANTITY = Quantity(**CONTENT["quantity"])
NAMES = list(dict.fromkeys(run["encoding"] for run in CONTENT["runs"]))
RUNS: list[dict[str, Any]] = [
    run
    for run in [*CONTENT["runs"], *CONTENT["earlier_runs"]]
    if run["encoding"] in NAMES and run["results"] and not run["failed"]
]


def title(name: str) -> str:
    return " + ".join(name.split(", ")) if "(" not in name else name


def by_row(field: Any, reported: bool) -> dict[str, dict[Any, Any]]:
    """Return field(run) by encoding and seed, of the reported runs, or by encoding and rate, of the tuning runs."""
    table: dict[str, dict[Any, Any]] = {name: {} for name in NAMES}
    for run in RUNS:
        if (run["seed"] != TUNING) == reported:
            table[run["encoding"]][run["seed"] if reported else run["point"]["optimizer.lr"]] = field(run)
    return table


def tuning() -> str:
    """Return the table of validation accuracies, with the chosen rate in bold."""
    values = by_row(lambda run: run["results"]["val"]["accuracy"], reported=False)
    rates = sorted({run["point"]["optimizer.lr"] for run in RUNS if run["point"]}, key=float)
    rows = []
    for name, tried in values.items():
        chosen = max(rates, key=tried.__getitem__) if len(tried) == len(rates) else None
        cells = {rate: QUANTITY.text(tried[rate]) for rate in tried}
        rows.append([title(name), *(f"**{cells[r]}**" if r == chosen else cells.get(r, "") for r in rates)])
    return f"\n{markdown.table(['encoding', *rates], rows)}\n\n"


def measured() -> str:
    """Return the table of test accuracies, and what pairs of the main rows show."""
    values, correct = (
        by_row(field, reported=True)
        for field in (lambda run: run["results"]["test"]["accuracy"], lambda run: run["correct"])
    )

    def gain(name: str, base: str) -> Summary | None:
        return paired.gain_over(values[name], values[base], correct[name], correct[base], QUANTITY)

    gains = {name: gain(name, BASELINE) for name in NAMES if name != BASELINE and values[name]}
    signs = paired.significant(gains)
    minutes = by_row(lambda run: run["results"]["minutes"], reported=True)
    rows = []
    for name in sorted(NAMES, key=lambda name: -statistics.fmean(values[name].values() or [0.0])):
        if not values[name]:
            continue
        summary = Summary.from_values(list(values[name].values()))
        text = interval.difference(gains.get(name), QUANTITY)
        cells = [title(name), f"{summary.n} of {PLANNED.get(name, 3)}", interval.mean(summary, QUANTITY)]
        cells += ["" if summary.sd is None else QUANTITY.text(summary.sd), f"**{text}**" if signs.get(name) else text]
        rows.append([*cells, f"{statistics.fmean(minutes[name].values()):.1f}"])
    head = ["encoding", "seeds", "accuracy %", "sd", f"gain over {BASELINE}", "min a run"]
    spent = sum(run["results"]["minutes"] for run in RUNS if run["seed"] != TUNING)
    done, planned = sum(map(len, values.values())), sum(PLANNED.get(name, 3) for name in NAMES)
    notes = [f"{done} of {planned} planned runs are finished; they took {spent:.0f} core-minutes."]
    pairs = [gain(a, b) for a, b in itertools.combinations(MAIN, 2) if len(values[a]) >= 3 and len(values[b]) >= 3]
    halves = sorted(100 * pair.half for pair in pairs if pair and pair.half is not None and math.isfinite(pair.half))
    if halves:
        few, middle = sum(half < 0.7 for half in halves), statistics.median(halves)
        notes.append(
            f"Paired differences of {len(halves)} pairs of the eight main rows have half-widths of {halves[0]:.2f} to "
            f"{halves[-1]:.2f} points, with a median of {middle:.2f}; {few} are below the planned 0.7."
        )
    return f"\n{markdown.table(head, rows)}\n\n" + "\n".join(notes) + "\n\n"


PARTS = dict(tuning=tuning, measured=measured)


@pytest.mark.parametrize("name", PARTS)
def test_tables_are_those_of_the_results(name: str) -> None:
    again = "`python -m tests.docs.test_fashion_page` writes the page's parts anew"
    assert made.part(PAGE, name) == PARTS[name](), again


def test_no_reported_run_has_a_rate_that_another_seed_does_not_have() -> None:
    rates = defaultdict(set)
    for run in RUNS:
        if run["seed"] != TUNING:
            rates[run["encoding"]].add(run["point"]["optimizer.lr"])
    assert all(len(of_row) == 1 for of_row in rates.values()), rates


def test_every_row_is_tested_with_the_rate_that_validated_best() -> None:
    tried = by_row(lambda run: run["results"]["val"]["accuracy"], reported=False)
    for run in RUNS:
        if run["seed"] != TUNING:
            rates = tried[run["encoding"]]
            assert rates[run["point"]["optimizer.lr"]] == max(rates.values()), run["folder"]


if __name__ == "__main__":
    for part, write in PARTS.items():
        made.rewrite(PAGE, part, write())
