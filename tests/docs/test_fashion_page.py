"""docs/results/fashion-mnist.md: its tables (`python -m tests.docs.test_fashion_page` writes them)."""

import itertools
import json
import statistics
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from ndformer.framework.engine.config.load import load
from ndformer.lab import interval, markdown, pages, paired, runner
from ndformer.lab.experiment import Cell
from ndformer.lab.results import Results, Values
from ndformer.lab.verdicts import ERROR, Check
from ndformer.studies import find
from ndformer.studies.pape import extrapolation, fashion
from ndformer.studies.training import NO_MATTER
from tests.docs import larger, made
from tests.docs.fashion import FASHION, FIRST, MAIN, SECOND, validated_best
from tests.docs.reported import TUNING, point, title

PAGE = "docs/results/fashion-mnist.md"
PAPERS = made.ROOT / "docs" / "papers"
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


def of_claims() -> dict[str, Results]:
    """Return the results of the experiments that test the claims of the PaPE paper with these runs."""
    small: dict[str, dict[int, Values]] = defaultdict(dict)
    enlarged: dict[str, dict[int, Values]] = defaultdict(dict)
    for row, encoding in fashion.ENCODINGS.items():
        for seed, value in sorted(FASHION.values.get(encoding, {}).items()):
            small[row][seed] = {"accuracy": 100 * value}
        for run in larger.runs_of(FASHION):
            if run.encoding == encoding:
                enlarged[row][run.seed] = extrapolation.accuracies(run, "Fashion-MNIST", fashion.SIZES)
    return {"pape:fashion": Results(small), "pape:fashion-larger": Results(enlarged)}


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


@pytest.mark.parametrize("name", of_claims())
def test_claims_are_tested_with_the_same_runs(name: str) -> None:
    published = pages.load_results(find(name), "small", PAPERS)
    assert published is not None
    assert published.values == of_claims()[name].values


ROWS = {encoding: row for row, encoding in fashion.ENCODINGS.items()}


def _verdict(check: Check, checks: int) -> str:
    """Return the verdict of a check by the page's gain."""
    names = [fashion.ENCODINGS[row] for row in (check.row, check.over)]
    ours, theirs = ({seed: paired.decode(text) for seed, text in FASHION.correct[name].items()} for name in names)
    value = paired.paired_gain(ours, theirs, FASHION.spread)
    assert value is not None
    distance = value.mean - check.limit / 100
    p = interval.p_value(distance, value.error, value.freedom)
    if distance > 0:
        return "supported" if p < ERROR else "inconclusive"
    return "contradicted" if p <= ERROR / checks else "inconclusive"


def test_claims_say_which_verdicts_the_intervals_of_the_page_would_change() -> None:
    experiment = find("pape:fashion")
    published = pages.load_results(experiment, "small", PAPERS)
    assert published is not None
    others = set()
    for claim in experiment.claims:
        words = {_verdict(check, len(claim.checks)) for check in claim.checks}
        word = next(word for word in ("contradicted", "inconclusive", "supported") if word in words)
        if word != experiment.judge(claim, published).word:
            assert (experiment.judge(claim, published).word, word) == ("inconclusive", "supported")
            others.add(claim.text)
    named = experiment.about.split("would be supported: ")[1].split(".")[0]
    assert {name.strip("*") for name in named.split(" and ")} == others


@pytest.mark.parametrize(
    "run", [r for r in FASHION.runs if r["seed"] == 0 and r["encoding"] in ROWS], ids=lambda r: r["encoding"]
)
def test_claims_are_tested_with_the_settings_of_the_runs(run: dict[str, Any]) -> None:
    config, *arguments = run["arguments"]
    options = arguments[arguments.index("--cfg-options") + 1 :]
    trained = load(made.ROOT / config, options, run["encoding"], False)
    ours = fashion.train_row(Cell(ROWS[run["encoding"]], 0, "small", Path("work/table/cell")), fashion.ON).cfg
    assert {k: v for k, v in ours.items() if k not in NO_MATTER} == {
        k: v for k, v in trained.items() if k not in NO_MATTER
    }


if __name__ == "__main__":
    for name, results in of_claims().items():
        folder = PAPERS / runner.folder_name(find(name), "small")
        pages.write(find(name), "small", results, folder)
        (folder / "table.md").unlink()
    for part, write in PARTS.items():
        made.rewrite(PAGE, part, write())
