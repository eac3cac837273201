"""Experiments: cells measured once, results that say no more than was measured, verdicts by their intervals."""

import itertools
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ndformer.framework.errors import DataError, UnknownNameError
from ndformer.lab import pages, runner
from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale
from ndformer.lab.jobs import Job, run_jobs
from ndformer.lab.results import Results, read
from ndformer.lab.verdicts import Verdict, above, ahead, alike, below, close_to, combine, inside


def lengths(cell: Cell) -> dict[str, float]:
    if cell.row == "breaks":
        raise DataError("no such ruler")
    return {"length": len(cell.row) + cell.seed / 10, "twice": 2 * len(cell.row)}


LENGTHS = Experiment(
    "rulers:table1",
    "Lengths",
    rows=("a", "long one"),
    columns={"length": "length, cm"},
    measure=lengths,
    scales={"small": Scale(3), "paper": Scale(3, needs="a ruler")},
    published={"a": {"length": "1.1 ± 0.2"}},
    claims=(ahead("the long one is longer", "long one", "a", "length"),),
    shows=("Table 1",),
)


def of(**rows: list[float]) -> Results:
    return Results({row: {seed: {"x": value} for seed, value in enumerate(values)} for row, values in rows.items()})


def measure_lengths(cell: Cell) -> None:
    runner.measure(LENGTHS, cell)


def measure_in_workers(home: Path) -> list[tuple[str, str]]:
    """The cells that were not measured yet, and their errors."""
    missing = [cell for cell in runner.cells(LENGTHS, "small", [0, 1], home) if not runner.is_measured(cell)]
    jobs = [Job(cell.folder, partial(measure_lengths, cell), ["measure", cell.row]) for cell in missing]
    return [(end.job.folder.name, end.error) for end in run_jobs(jobs, 2, 1)]


@pytest.mark.slow
def test_cells_are_measured_once_and_the_same_again(tmp_path):
    home = tmp_path / "work"
    assert sorted(measure_in_workers(home)) == [
        (f"{row}_seed{seed}", "") for row in ("a", "long_one") for seed in (0, 1)
    ]
    assert measure_in_workers(home) == []
    results = runner.collect(LENGTHS, "small", [0, 1], home)
    assert (results.column("a", "length"), results.column("long one", "twice")) == ([1.0, 1.1], [16, 16])
    pages.write(LENGTHS, "small", results, tmp_path / "out")
    first = (tmp_path / "out" / "results.json").read_text()
    pages.write(LENGTHS, "small", read(tmp_path / "out" / "results.json"), tmp_path / "out")
    assert (tmp_path / "out" / "results.json").read_text() == first
    assert (tmp_path / "out" / "picture.png").stat().st_size > 1000


def test_a_cell_that_is_half_written_or_somebody_elses_is_measured_again(tmp_path):
    (cell,) = [c for c in runner.cells(LENGTHS, "small", [0], tmp_path) if c.row == "a"]
    runner.measure(LENGTHS, cell)
    whole = (cell.folder / runner.CELL).read_text()
    for spoilt in (whole[:20], json.dumps(dict(row="b", seed=0, values={})), whole.replace("1.0", "NaN"), "[]"):
        (cell.folder / runner.CELL).write_text(spoilt)
        assert runner.collect(LENGTHS, "small", [0], tmp_path).column("a", "length") == []


def test_a_cell_that_fails_has_the_error_of_its_process(tmp_path):
    cell = Cell("breaks", 0, "small", tmp_path / "cell")
    (end,) = run_jobs([Job(cell.folder, partial(measure_lengths, cell), ["measure", "breaks"])], 1, 1)
    assert end.error == "measure: no such ruler"
    assert (cell.folder / "log.txt").read_text().splitlines() == ["measure breaks", "measure: no such ruler"]


def test_data_that_is_not_there_is_one_sentence_with_where_to_get_it(tmp_path):
    reads = replace(LENGTHS, scales={"small": Scale(3, data=(DataSet("rulers", "ten rulers of github.com/rulers"),))})
    with pytest.raises(DataError, match=r"rulers:table1 reads \S+rulers, which is not there: get ten rulers of github"):
        runner.check_data(reads, "small", tmp_path)
    (tmp_path / "rulers").mkdir()
    runner.check_data(reads, "small", tmp_path)


def test_minutes_are_those_of_cells_that_are_done(tmp_path):
    cell, *_ = runner.cells(LENGTHS, "small", [0], tmp_path)
    assert runner.minutes(LENGTHS, "small", [0], tmp_path) == 0
    runner.measure(replace(LENGTHS, measure=lambda cell: {"length": sum(range(10**7))}), cell)
    assert 0 < runner.minutes(LENGTHS, "small", [0], tmp_path) < 1


def test_a_row_that_is_none_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'long one'"):
        runner.cells(LENGTHS, "small", [0], tmp_path, rows=["long on"])


def test_a_measure_that_lacks_a_column_is_told(tmp_path):
    short = replace(LENGTHS, columns={"length": "length", "width": "width"})
    (cell, *_) = runner.cells(short, "small", [0], tmp_path)
    with pytest.raises(DataError, match="measured no width of a"):
        runner.measure(short, cell)


def test_verdicts_are_by_the_interval():
    results = of(high=[10.0, 11.0, 12.0], low=[1.0, 2.1, 2.9], wide=[0.0, 30.0, 3.0], one=[5.0])
    assert ahead("", "high", "low", "x").judge(results).word == "supported"
    assert ahead("", "low", "high", "x").judge(results).word == "contradicted"
    assert ahead("", "wide", "low", "x").judge(results).word == "inconclusive"
    assert ahead("", "high", "low", "x", by=20).judge(results).word == "contradicted"
    assert above("", "high", "x", 5).judge(results).word == below("", "low", "x", 5).judge(results).word == "supported"
    assert (
        above("", "low", "x", 5).judge(results).word == below("", "high", "x", 5).judge(results).word == "contradicted"
    )
    assert above("", "one", "x", 1).judge(results).word == "inconclusive"  # one seed tells nothing
    assert (
        above("", "none", "x", 1).judge(results) == below("", "none", "x", 1).judge(results) == Verdict("not measured")
    )
    assert (
        ahead("", "none", "low", "x").judge(results)
        == alike("", "low", "none", "x", 1).judge(results)
        == Verdict("not measured")
    )
    assert alike("", "high", "low", "x", 20).judge(results).word == "supported"
    assert alike("", "high", "low", "x", 1).judge(results).word == "contradicted"
    assert alike("", "wide", "low", "x", 20).judge(results).word == "inconclusive"
    assert ahead("", "high", "low", "x").judge(results).evidence.startswith("high over low in x: +9 ± 0.2")
    sizes = Results({"a": {seed: {"28": 90.0 + seed, "40": 80.0} for seed in range(3)}})
    assert ahead("", "a", "a", [("28", "40")]).judge(sizes).evidence.startswith("a in 28 over 40: +11 ± ")
    assert ahead("", "a", "a", [("40", "28")]).judge(sizes).word == "contradicted"


def test_where_all_seeds_are_level_nothing_is_told_apart():
    results = of(best=[100.0, 100.0], other=[100.0, 100.0])
    assert ahead("", "best", "other", "x").judge(results).word == "inconclusive"
    assert (
        above("", "best", "x", 100).judge(results).word
        == below("", "best", "x", 100).judge(results).word
        == "inconclusive"
    )
    assert above("", "best", "x", 99).judge(results).word == "supported"
    assert below("", "best", "x", 99).judge(results).word == "contradicted"


def test_a_mean_is_near_a_number_if_all_of_its_interval_is():
    results = of(near=[5.0, 5.1, 5.2], wide=[0.0, 9.0, 6.3], off=[8.0, 8.1, 8.2])
    verdict = close_to("", "near", "x", 5, 0.5).judge(results)
    assert (verdict.word, verdict.evidence) == ("supported", "near in x: 5.1 ± 0.248 (target 5 ± 0.5)")
    assert verdict.margin == pytest.approx(0.4 / 0.2484, rel=1e-3)
    assert close_to("", "wide", "x", 5, 0.5).judge(results).word == "inconclusive"
    assert close_to("", "off", "x", 5, 0.5).judge(results).word == "contradicted"
    assert close_to("", "none", "x", 5, 0.5).judge(results) == Verdict("not measured")


def test_a_figure_has_the_digits_to_see_on_which_side_of_its_limit_it_is():
    results = of(just=[1.0, 1.0, 1.0])
    assert below("", "just", "x", 1 + 1e-9).judge(results).evidence == "just in x: 1 ± 0 (limit 1.000000001)"
    assert above("", "just", "x", 0.5).judge(results).evidence == "just in x: 1 ± 0 (limit 0.5)"


def test_a_claim_in_parts_is_as_weak_as_its_weakest():
    results = of(high=[10.0, 11.0], low=[1.0, 2.0], wide=[0.0, 30.0])
    strong, weak, wrong = above("", "high", "x", 0), above("", "wide", "x", 5), above("", "low", "x", 50)
    assert combine("", [strong, strong]).judge(results).word == "supported"
    assert combine("", [strong, weak]).judge(results).word == "inconclusive"
    assert combine("", [strong, weak, wrong]).judge(results).word == "contradicted"


def test_a_claim_in_many_parts_says_the_one_that_speaks_for_it_least_and_how_many_fail():
    results = of(close=[6.0, 6.1], far=[90.0, 91.0], wide=[0.0, 30.0], wider=[-40.0, 30.0], low=[1.0, 1.1])

    def evidence(*rows: str) -> str:
        return above("", rows, "x", 5).judge(results).evidence

    assert evidence("far", "close") == f"{evidence('far')}; {evidence('close')}"
    assert evidence("far", "close", "far") == "close in x: 6.05 ± 0.635 (limit 5); the closest of 3"
    assert evidence("far", "wide", "wider") == "wider in x: -5 ± 445 (limit 5); inconclusive: 2 of 3"
    counts = "contradicted: 1 of 4, inconclusive: 2 of 4"
    assert evidence("wide", "low", "wide", "far") == f"{evidence('low')}; {counts}"


def test_rows_and_columns_of_a_claim_are_all_combined():
    claim = ahead("", ("a", "b"), ("c", "d"), ("x", "y"), by=1)
    assert [(c.row, c.over, c.column) for c in claim.checks] == list(itertools.product("ab", "cd", "xy"))
    assert {(c.limit, c.over_column == c.column) for c in claim.checks} == {(1, True)}
    assert [(c.rule, c.limit) for c in inside("", "a", "x", 1, 2).checks] == [("above", 1), ("below", 2)]


def test_a_page_has_what_was_measured_beside_the_papers_and_marks_what_was_not(tmp_path):
    for seed in range(3):
        for cell in runner.cells(LENGTHS, "small", [seed], tmp_path):
            runner.measure(LENGTHS, cell)
    results = runner.collect(LENGTHS, "small", range(3), tmp_path)
    pages.write(LENGTHS, "small", results, tmp_path / "rulers_table1_small")
    page = pages.page(pages.Paper("rulers", "Rulers", [LENGTHS], "How long?"), tmp_path)
    assert "1.100 ± 0.100 | 1.1 ± 0.2 |" in page
    rows = [" ".join(line.split()) for line in page.splitlines()]
    effect = LENGTHS.claims[0].judge(results).effect
    assert effect.startswith("+7 ± ")
    assert f"| the long one is longer | **supported** | {effect} | [table1](#table1) |" in rows
    assert f"| the long one is longer | long one over a in length: {effect} | [table1](#table1) |" in rows
    assert "- Claims of the paper, tested here: 1. Verdicts: 1 supported." in page
    unmeasured = page.partition("*Not run here: it needs a ruler.*")[2]
    assert "| a        |       |            | 1.1 ± 0.2 |" in unmeasured  # cells are empty, the paper's figures stand
    assert "![Lengths](rulers_table1_small/picture.png)" in page


def test_results_that_are_none_are_refused(tmp_path):
    (tmp_path / "results.json").write_text('{"values": 3}')
    with pytest.raises(DataError, match="is not a file that tools/reproduce.py writes"):
        read(tmp_path / "results.json")


def test_facts_that_no_seed_changes_have_a_verdict_with_one_seed():
    """Issue 44.13: "It has no parameters ... not told apart", of one seed."""
    one = Results({"parameters": {0: {"how many": 0.0}}})
    assert below("", "parameters", "how many", 0.5).judge(one).word == "inconclusive"
    fact = below("", "parameters", "how many", 0.5, exact=True).judge(one)
    assert (fact.word, fact.evidence) == ("supported", "parameters in how many: 0 (limit 0.5)")
    assert above("", "parameters", "how many", 0.5, exact=True).judge(one).word == "contradicted"
    assert above("", "parameters", "how many", 0.0, exact=True).judge(one).word == "contradicted"  # level is not above
    assert close_to("", "parameters", "how many", 0.04, 0.05, exact=True).judge(one).word == "supported"
    assert close_to("", "parameters", "how many", 0.06, 0.05, exact=True).judge(one).word == "contradicted"
    wide = Results({"parameters": {seed: {"how many": 0.4 * seed} for seed in range(3)}})
    assert (
        below("", "parameters", "how many", 0.9, exact=True).judge(wide).word == "supported"
    )  # every seed, whatever the interval
