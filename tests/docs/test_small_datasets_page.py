"""docs/results/small-datasets.md: the designed comparison (`python -m tests.docs.test_small_datasets_page`)."""

import json

import pytest

from tests.docs import made
from tests.docs.reported import TUNING, Reported, point
from tests.docs.small_sets import FINISHED, SETS

PAGE = "docs/results/small-datasets.md"


def parts() -> dict[str, str]:
    """Return the generated parts of the page by name."""
    texts = {}
    for folder, runs in SETS.items():
        texts[f"{folder}_search"] = f"\n{runs.search()}\n\n"
        if folder in FINISHED:
            texts[f"{folder}_accuracies"] = runs.accuracies()
            texts[f"{folder}_pairs"] = runs.pairs()
    return texts


@pytest.mark.parametrize("name, text", parts().items())
def test_tables_are_those_of_the_results(name: str, text: str) -> None:
    again = "`python -m tests.docs.test_small_datasets_page` writes the page's tables anew"
    assert made.part(PAGE, name) == text, again


@pytest.mark.parametrize("runs", SETS.values(), ids=SETS)
def test_reported_runs_have_the_rate_that_validated_best(runs: Reported) -> None:
    assert set(runs.tried) >= set(runs.main)
    for run in runs.runs:
        if run["seed"] != TUNING:
            rates = runs.tried[run["encoding"]]
            assert rates[point(run)] == max(rates.values()), run["folder"]


def test_ten_runs_again_have_the_same_figures() -> None:
    """Those of data/again, trained anew on the same kind of processor."""
    content = json.loads((SETS["hand_signs"].folder.parent / "again" / "compare.json").read_text())
    again = [*content["runs"], *content["earlier_runs"]]
    first = {(run["encoding"], run["seed"]): run for run in SETS["hand_signs"].runs}
    assert len(again) == 10
    for run in again:
        before = first[run["encoding"], run["seed"]]
        rate = before["point"]["optimizer.lr"]
        assert any(float(text.partition("=")[2]) == float(rate) for text in run["arguments"] if "optimizer.lr=" in text)
        for part in ("test", "val"):
            assert run["results"][part] == before["results"][part]
        assert run["correct"] == before["correct"]


if __name__ == "__main__":
    for name, text in parts().items():
        made.rewrite(PAGE, name, text)
