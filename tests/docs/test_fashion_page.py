"""docs/results/fashion-mnist.md: its tables (`python -m tests.docs.test_fashion_page` writes them)."""

import itertools
import json
import statistics
from functools import partial

import pytest
from scipy import stats

from ndformer.lab import interval, markdown
from tests.docs import larger, made
from tests.docs.fashion import FASHION, FIRST, MAIN, SECOND, validated_best
from tests.docs.reported import TUNING, point, title

PAGE = "docs/results/fashion-mnist.md"
HIGHER = json.loads((made.ROOT / "docs" / "results" / "data" / "higher_fashion" / "compare.json").read_text())


def pairs() -> str:
    """Return the gains of the main rows over each other, with the half-width that the design aims at."""
    return FASHION.pairs(limit=0.7)


def tuning() -> str:
    """Return the table of the search, and rates beyond it."""
    beyond = ", ".join(
        f"{title(run['encoding'])} {100 * run['results']['val']['accuracy']:.2f}" for run in HIGHER["runs"]
    )
    (rate,) = {run["point"]["optimizer.lr"] for run in HIGHER["runs"]}
    note = (
        f"Beyond the search, at {rate}, to see whether it was wide enough "
        f"([JSON](data/higher_fashion/compare.json)): {beyond} %."
    )
    return f"\n{FASHION.search()}\n\n{note}\n\n"


def two_rates() -> str:
    """Return the table of the main rows with a second learning rate."""
    rows = []
    for name in filter(SECOND.__contains__, FASHION.ranked()):
        first, second, texts = FIRST[name], SECOND[name], []
        for row in (first, second):
            chosen = "**" if row is validated_best(name) else ""
            texts += [row.rate, f"{chosen}{100 * row.validation():.2f}{chosen}"]
            texts.append(interval.mean(FASHION.mean_of(list(row.test.values())), FASHION.quantity))
        rows.append([title(name), *texts, interval.difference(second.over(first), FASHION.quantity)])
    head = ["encoding", *("rate", "validation", "test") * 2, "gain of the second"]
    return f"\n{markdown.table(head, rows)}\n\n"


def better_rates() -> str:
    """Return the gains of the main rows over each other, each with the rate that validates better."""
    best = {name: validated_best(name) for name in MAIN}
    names = sorted(best, key=lambda name: -statistics.fmean(best[name].test.values()))
    texts = FASHION.written({(a, b): best[a].over(best[b]) for a, b in itertools.combinations(names, 2)})
    rows = []
    for name in names:
        accuracy = interval.mean(FASHION.mean_of(list(best[name].test.values())), FASHION.quantity)
        gains = (texts.get((name, base), "") for base in names[1:])
        rows.append([title(name), best[name].rate, str(len(best[name].test)), accuracy, *gains])
    head = ["encoding", "rate", "seeds", "accuracy %", *("over " + title(name) for name in names[1:])]
    return f"\n{markdown.table(head, rows)}\n\n"


PARTS = dict(
    measured=FASHION.accuracies,
    pairs=pairs,
    larger=partial(larger.tables, FASHION),
    tuning=tuning,
    two_rates=two_rates,
    better_rates=better_rates,
)


@pytest.mark.parametrize("name", PARTS)
def test_tables_are_those_of_the_results(name: str) -> None:
    again = "`python -m tests.docs.test_fashion_page` writes the page's parts anew"
    assert made.part(PAGE, name) == PARTS[name](), again


def test_every_row_is_tested_with_the_rate_that_validated_best() -> None:
    for run in FASHION.runs:
        if run["seed"] != TUNING:
            rates = FASHION.tried[run["encoding"]]
            assert rates[point(run)] == max(rates.values()), run["folder"]


def test_the_second_rate_is_the_better_neighbor_of_the_chosen_one() -> None:
    for name, row in SECOND.items():
        rates = sorted(FASHION.tried[name], key=float)
        at = rates.index(FIRST[name].rate)
        neighbors = rates[max(at - 1, 0) : at] + rates[at + 1 : at + 2]
        assert row.rate == max(neighbors, key=lambda rate: FASHION.tried[name][rate]), name


def test_rows_vary_alike_so_that_their_spread_may_be_pooled() -> None:
    assert (FASHION.of_equal_spreads() or 0) > 0.05
    both = [
        *FASHION.values.values(),
        *(row.test for row in SECOND.values()),
    ]  # those of a second rate have the same spread
    assert stats.bartlett(*(list(row.values()) for row in both if len(row) > 1)).pvalue > 0.05


if __name__ == "__main__":
    for part, write in PARTS.items():
        made.rewrite(PAGE, part, write())
