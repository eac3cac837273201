"""The PaPE paper's claims are tested with the runs of the comparison.

`python -m tests.docs.test_same_treatment` writes their results to docs/papers.
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ndformer.framework.engine.config.load import load
from ndformer.lab import interval, pages, paired, runner
from ndformer.lab.experiment import Cell
from ndformer.lab.results import Results, Values
from ndformer.lab.verdicts import ERROR, Check
from ndformer.studies import find
from ndformer.studies.grid import TrainingSet
from ndformer.studies.pape import extrapolation, same_treatment
from ndformer.studies.pape.extrapolation import Sizes
from ndformer.studies.training import NO_MATTER
from tests.docs import larger, made
from tests.docs.fashion import FASHION
from tests.docs.reported import Reported
from tests.docs.small_sets import SETS

PAPERS = made.ROOT / "docs" / "papers"
SMALL = {"digits": SETS["digits"], "signs": SETS["hand_signs"]}  # by the name of the set in same_treatment.py
ROWS = {encoding: row for row, encoding in same_treatment.ENCODINGS.items()}


def of_claims() -> dict[str, Results]:
    """Return the results of the experiments."""
    fashion: dict[str, dict[int, Values]] = defaultdict(dict)
    for row, encoding in same_treatment.ENCODINGS.items():
        for seed, value in sorted(FASHION.values.get(encoding, {}).items()):
            fashion[row][seed] = {"accuracy": 100 * value}
    return {
        "pape:fashion": Results(fashion),
        "pape:fashion-larger": on_larger_images({"Fashion-MNIST": FASHION}, same_treatment.FASHION_SIZES),
        "pape:extrapolation": on_larger_images(SMALL, same_treatment.SMALL_SIZES),
    }


def on_larger_images(sets: Mapping[str, Reported], sizes: Mapping[str, Sizes]) -> Results:
    """Return the results of the seeds that all sets have, by row."""
    by_row: dict[str, dict[int, Values]] = {row: defaultdict(dict) for row in same_treatment.ENCODINGS}
    for name, reported in sets.items():
        for run in larger.runs_of(reported):
            if run.encoding in ROWS:
                by_row[ROWS[run.encoding]][run.seed] |= extrapolation.accuracies(run, name, sizes)
    columns = extrapolation.columns(sizes).keys()
    whole = lambda seeds: {seed: seeds[seed] for seed in sorted(seeds) if seeds[seed].keys() == columns}
    return Results({row: whole(seeds) for row, seeds in by_row.items() if whole(seeds)})


@pytest.mark.parametrize("name", of_claims())
def test_claims_are_tested_with_the_same_runs(name: str) -> None:
    published = pages.load_results(find(name), "small", PAPERS)
    assert published is not None
    assert published.values == of_claims()[name].values


def _verdict(check: Check, checks: int) -> str:
    """Return the verdict of a check by the page's gain."""
    names = [same_treatment.ENCODINGS[row] for row in (check.row, check.over)]
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


TRAINED = [(same_treatment.FASHION, FASHION), *((same_treatment.SMALL[name], SMALL[name]) for name in SMALL)]


@pytest.mark.parametrize(
    "on, run",
    [
        pytest.param(on, run, id=f"{on.config} {run['encoding']}")
        for on, reported in TRAINED
        for run in reported.runs
        if run["seed"] == 0 and run["encoding"] in ROWS
    ],
)
def test_claims_are_tested_with_the_settings_of_the_runs(on: TrainingSet, run: dict[str, Any]) -> None:
    config, *arguments = run["arguments"]
    options = arguments[arguments.index("--cfg-options") + 1 :]
    trained = load(made.ROOT / config, options, run["encoding"], False)
    ours = same_treatment.train_row(Cell(ROWS[run["encoding"]], 0, "small", Path("work/table/cell")), on).cfg
    assert {k: v for k, v in ours.items() if k not in NO_MATTER} == {
        k: v for k, v in trained.items() if k not in NO_MATTER
    }


if __name__ == "__main__":
    for name, results in of_claims().items():
        folder = PAPERS / runner.folder_name(find(name), "small")
        pages.write(find(name), "small", results, folder)
        (folder / "table.md").unlink()
