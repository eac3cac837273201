"""Experiments: cells that are measured once, verdicts by confidence intervals, pages and the list of experiments."""

import itertools
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ndformer.framework.errors import DataError, UnknownNameError
from ndformer.lab import pages, runner
from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale
from ndformer.lab.jobs import Job, run_jobs
from ndformer.lab.power import seeds_needed
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
)


def of(**rows: list[float]) -> Results:
    return Results({row: {seed: {"x": value} for seed, value in enumerate(values)} for row, values in rows.items()})


def measure_lengths(cell: Cell) -> None:
    runner.measure(LENGTHS, cell)


def measure_in_workers(home: Path) -> list[tuple[str, str]]:
    """Measure the missing cells, and return their names and errors."""
    missing = [cell for cell in runner.cells(LENGTHS, "small", [0, 1], home) if not runner.is_measured(LENGTHS, cell)]
    jobs = [Job(cell.folder, partial(measure_lengths, cell), ["measure", cell.row]) for cell in missing]
    return [(end.job.folder.name, end.error) for end in run_jobs(jobs, 2, 1)]


@pytest.mark.slow
def test_cells_are_measured_once_and_results_are_written_the_same_again(tmp_path):
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


def test_damaged_cells_do_not_count(tmp_path):
    (cell,) = [c for c in runner.cells(LENGTHS, "small", [0], tmp_path) if c.row == "a"]
    runner.measure(LENGTHS, cell)
    whole = (cell.folder / runner.CELL).read_text()
    for damaged in (whole[:20], json.dumps(dict(row="b", seed=0, values={})), whole.replace("1.0", "NaN"), "[]"):
        (cell.folder / runner.CELL).write_text(damaged)
        assert runner.collect(LENGTHS, "small", [0], tmp_path).column("a", "length") == []


def test_a_failed_cell_has_the_error_of_its_process(tmp_path):
    cell = Cell("breaks", 0, "small", tmp_path / "cell")
    (end,) = run_jobs([Job(cell.folder, partial(measure_lengths, cell), ["measure", "breaks"])], 1, 1)
    assert end.error == "measure: no such ruler"
    assert (cell.folder / "log.txt").read_text().splitlines() == ["measure breaks", "measure: no such ruler"]


def test_missing_data_is_an_error_that_names_the_source(tmp_path):
    reads = replace(LENGTHS, scales={"small": Scale(3, data=(DataSet("rulers", "ten rulers of github.com/rulers"),))})
    with pytest.raises(DataError, match=r"rulers:table1 reads \S+rulers, which is not there: get ten rulers of github"):
        runner.check_data(reads, "small", tmp_path)
    (tmp_path / "rulers").mkdir()
    runner.check_data(reads, "small", tmp_path)


def test_cells_of_other_data_are_refused(tmp_path):
    reads, home = replace(LENGTHS, scales={"small": Scale(3, data=(DataSet("rulers", ""),))}), tmp_path / "work"
    for root in ("old", "new"):
        folder = tmp_path / root / "rulers"
        folder.mkdir(parents=True)
        (folder / "first.txt").write_text(root * len(root))
    runner.check_same_data(reads, "small", home, tmp_path / "old")
    runner.check_same_data(reads, "small", home, tmp_path / "new")  # same names and sizes
    (tmp_path / "new" / "rulers" / "second.txt").write_text("1")
    with pytest.raises(DataError, match=r"other files than \S+rulers has now"):
        runner.check_same_data(reads, "small", home, tmp_path / "new")
    runner.check_same_data(reads, "small", tmp_path / "elsewhere", tmp_path / "new")


def test_minutes_count_measured_cells(tmp_path):
    cell, *_ = runner.cells(LENGTHS, "small", [0], tmp_path)
    assert runner.minutes(LENGTHS, "small", [0], tmp_path) == 0
    runner.measure(replace(LENGTHS, measure=lambda cell: {"length": sum(range(10**7))}), cell)
    assert 0 < runner.minutes(LENGTHS, "small", [0], tmp_path) < 1


def test_unknown_rows_and_missing_columns_are_errors(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'long one'"):
        runner.cells(LENGTHS, "small", [0], tmp_path, rows=["long on"])
    short = replace(LENGTHS, columns={"length": "length", "width": "width"})
    with pytest.raises(DataError, match="measured no width of a"):
        runner.measure(short, runner.cells(short, "small", [0], tmp_path)[0])


SEEDS = {
    **dict(high=[10.0, 11.0, 12.0], low=[1.0, 2.1, 2.9], wide=[0.0, 30.0, 3.0], one=[5.0]),
    **dict(best=[100.0, 100.0], equal=[100.0, 100.0], near=[5.0, 5.1, 5.2], wider=[0.0, 9.0, 6.3], off=[8.0, 8.1, 8.2]),
    **dict(zero=[0.0], spread=[0.0, 0.4, 0.8]),
}


@pytest.mark.parametrize(
    "claim, word",
    [
        (ahead("", "high", "low", "x"), "supported"),
        (ahead("", "low", "high", "x"), "contradicted"),
        (ahead("", "wide", "low", "x"), "inconclusive"),
        (ahead("", "high", "low", "x", by=20), "contradicted"),
        (ahead("", "none", "low", "x"), "not measured"),
        (above("", "high", "x", 5), "supported"),
        (above("", "low", "x", 5), "contradicted"),
        (above("", "one", "x", 1), "inconclusive"),  # one seed has no interval
        (above("", "none", "x", 1), "not measured"),
        (below("", "low", "x", 5), "supported"),
        (below("", "high", "x", 5), "contradicted"),
        (below("", "none", "x", 1), "not measured"),
        (alike("", "high", "low", "x", 20), "supported"),
        (alike("", "high", "low", "x", 1), "contradicted"),
        (alike("", "wide", "low", "x", 20), "inconclusive"),
        (alike("", "low", "none", "x", 1), "not measured"),
        # the same value with all seeds
        (ahead("", "best", "equal", "x"), "inconclusive"),
        (above("", "best", "x", 100), "inconclusive"),
        (below("", "best", "x", 100), "inconclusive"),
        (above("", "best", "x", 99), "supported"),
        (below("", "best", "x", 99), "contradicted"),
        # the whole interval must be near the number
        (close_to("", "near", "x", 5, 0.5), "supported"),
        (close_to("", "wider", "x", 5, 0.5), "inconclusive"),
        (close_to("", "off", "x", 5, 0.5), "contradicted"),
        (close_to("", "none", "x", 5, 0.5), "not measured"),
        # facts need no interval, one seed is enough, and each value counts (issue 44.13)
        (below("", "zero", "x", 0.5), "inconclusive"),
        (below("", "zero", "x", 0.5, exact=True), "supported"),
        (above("", "zero", "x", 0.5, exact=True), "contradicted"),
        (above("", "zero", "x", 0.0, exact=True), "contradicted"),  # equal is not above
        (close_to("", "zero", "x", 0.04, 0.05, exact=True), "supported"),
        (close_to("", "zero", "x", 0.06, 0.05, exact=True), "contradicted"),
        (below("", "spread", "x", 0.9, exact=True), "supported"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value.checks[0]),
)
def test_verdicts(claim, word):
    verdict = claim.judge(of(**SEEDS))
    assert verdict.word == word
    assert (verdict == Verdict("not measured")) == (word == "not measured")


def test_evidence_has_rows_columns_interval_and_limit():
    results = of(**SEEDS, just=[1.0, 1.0, 1.0])
    evidence = lambda claim: claim.judge(results).evidence
    assert evidence(ahead("", "high", "low", "x")).startswith("high over low in x: +9 ± 0.2")
    assert evidence(below("", "zero", "x", 0.5, exact=True)) == "zero in x: 0 (limit 0.5)"
    assert evidence(close_to("", "near", "x", 5, 0.5)) == "near in x: 5.1 ± 0.248 (target 5 ± 0.5)"
    assert close_to("", "near", "x", 5, 0.5).judge(results).margin == pytest.approx(0.4 / 0.2484, rel=1e-3)
    # as many digits as show on which side of the limit the mean is
    assert evidence(below("", "just", "x", 1 + 1e-9)) == "just in x: 1 ± 0 (limit 1.000000001)"
    assert evidence(above("", "just", "x", 0.5)) == "just in x: 1 ± 0 (limit 0.5)"
    sizes = Results({"a": {seed: {"28": 90.0 + seed, "40": 80.0} for seed in range(3)}})
    assert ahead("", "a", "a", [("28", "40")]).judge(sizes).evidence.startswith("a in 28 over 40: +11 ± ")
    assert ahead("", "a", "a", [("40", "28")]).judge(sizes).word == "contradicted"


def test_a_combined_claim_is_as_weak_as_its_weakest_part():
    results = of(high=[10.0, 11.0], low=[1.0, 2.0], wide=[0.0, 30.0])
    strong, weak, wrong = above("", "high", "x", 0), above("", "wide", "x", 5), above("", "low", "x", 50)
    assert combine("", [strong, strong]).judge(results).word == "supported"
    assert combine("", [strong, weak]).judge(results).word == "inconclusive"
    assert combine("", [strong, weak, wrong]).judge(results).word == "contradicted"


def test_one_of_many_checks_does_not_contradict_by_chance():
    """Issue 47: a true claim of ten comparisons at their limit was "contradicted" in every fifth case."""
    low = [4.8, 4.9, 4.85]  # below 5 by its 95 % interval, not by that at 99.5 %
    results = of(low=low, **{f"high{i}": [9.0, 9.1, 9.2] for i in range(9)})
    rows = ["low", *(f"high{i}" for i in range(9))]
    assert above("", "low", "x", 5).judge(results).word == "contradicted"
    assert above("", rows, "x", 5).judge(results).word == "inconclusive"
    rng = np.random.default_rng(0)
    words = []
    for _ in range(300):
        at_limit = {f"r{i}": list(5 + rng.standard_normal(3)) for i in range(10)}
        words.append(above("", list(at_limit), "x", 5).judge(of(**at_limit)).word)
    assert words.count("contradicted") / 300 < 0.06


def test_an_inconclusive_claim_has_the_seeds_that_would_decide_it(tmp_path):
    results = of(even=[6.0, 4.0, 8.0], clear=[9.0, 9.1, 9.2], under=[4.0, 2.0, 6.0], one=[7.0], same=[5.0, 5.0, 5.0])
    verdict = above("", "even", "x", 5).judge(results)  # 1 from the limit, standard deviation 2
    assert (verdict.word, verdict.seeds) == ("inconclusive", seeds_needed(1, 2))
    assert above("", ["even", "clear"], "x", 5).judge(results).seeds == verdict.seeds
    assert above("", ["even", "under"], "x", 5).judge(results).seeds == seeds_needed(1, 2, confidence=0.975)
    assert above("", "clear", "x", 5).judge(results).seeds is None
    assert above("", ["even", "one"], "x", 5).judge(results).seeds is None  # one seed has no standard deviation
    assert above("", "same", "x", 5).judge(results).seeds is None


def test_gains_that_all_seeds_share_are_no_certainty():
    """Gains of 1 of 250 samples with each seed were supported, and some with a limit of 0.4 by rounding."""
    base = [100 * n / 250 for n in (181, 182, 184)]
    results = of(base=base, more=[100 * n / 250 for n in (182, 183, 185)], far=[value + 40 for value in base])
    assert ahead("", "more", "base", "x").judge(results).word == "inconclusive"
    assert ahead("", "more", "base", "x", 0.4).judge(results).word == "inconclusive"
    assert ahead("", "far", "base", "x").judge(results).word == "supported"
    constant = of(base=[3.0, 3.0], more=[4.0, 4.0])  # no seed changes it
    assert ahead("", "more", "base", "x").judge(constant).word == "supported"


def test_gains_are_paired_where_the_seed_draws_the_samples():
    rows = {"a": [10.0, 20.0, 30.0], "b": [9.0, 19.1, 29.0]}  # 1 apart by seed, 10 between seeds
    results, claim = of(**rows), ahead("", "a", "b", "x")
    assert claim.judge(results).word == claim.judge(results, ["x"]).word == "supported"
    verdict = claim.judge(results, [])
    assert verdict.word == claim.judge(results, ["y"]).word == "inconclusive"
    test: Any = stats.ttest_ind(*rows.values(), equal_var=False)
    per_seed = test.df / 2
    assert verdict.seeds == seeds_needed(0.967, math.hypot(10, 9.95), freedom_per_seed=per_seed)
    same = Results({"a": {seed: {"28": 90.0 + 9 * seed, "40": 80.0 + 9.1 * seed} for seed in range(3)}})
    assert ahead("", "a", "a", [("28", "40")]).judge(same, []).word == "supported"  # of one model
    experiment = replace(LENGTHS, paired=())
    assert experiment.judge(claim, results) == verdict


def test_a_claim_of_a_range_needs_power_at_both_ends():
    results = of(even=[-2.0, 0.0, 2.0])
    seeds = close_to("", "even", "x", 0, 1).judge(results).seeds
    assert seeds is not None
    rng = np.random.default_rng(0)
    draws = 2 * rng.standard_normal((4000, seeds))
    half = stats.t.ppf(0.975, seeds - 1) * draws.std(1, ddof=1) / math.sqrt(seeds)
    assert 0.76 < np.mean(np.abs(draws.mean(1)) + half < 1) < 0.86


def test_evidence_of_many_checks_is_the_weakest_and_the_number_that_fail():
    results = of(close=[6.0, 6.1], far=[90.0, 91.0], wide=[0.0, 30.0], wider=[-40.0, 30.0], low=[1.0, 1.1])

    def evidence(*rows: str) -> str:
        return above("", rows, "x", 5).judge(results).evidence

    assert evidence("far", "close") == f"{evidence('far')}; {evidence('close')}"
    assert evidence("far", "close", "far") == "close in x: 6.05 ± 0.635 (limit 5); the closest of 3"
    assert evidence("far", "wide", "wider") == "wider in x: -5 ± 445 (limit 5); inconclusive: 2 of 3"
    counts = "contradicted: 1 of 4, inconclusive: 2 of 4"
    assert evidence("wide", "low", "wide", "far") == f"{evidence('low')}; {counts}"


def test_a_claim_combines_all_rows_and_columns():
    claim = ahead("", ("a", "b"), ("c", "d"), ("x", "y"), by=1)
    assert [(c.row, c.over, c.column) for c in claim.checks] == list(itertools.product("ab", "cd", "xy"))
    assert {(c.limit, c.over_column == c.column) for c in claim.checks} == {(1, True)}
    assert [(c.rule, c.limit) for c in inside("", "a", "x", 1, 2).checks] == [("above", 1), ("below", 2)]


def test_a_page_has_measured_numbers_beside_printed_ones(tmp_path):
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
    assert f"| the long one is longer | **supported** | {effect} | | [table1](#table1) |" in rows
    assert f"| the long one is longer | long one over a in length: {effect} | [table1](#table1) |" in rows
    assert "- Claims tested here: 1. Verdicts: 1 supported." in page
    clearest = f"Clearest: *the long one is longer* is supported (long one over a in length: {effect})."
    assert f"- [table1](#table1): 1 supported. {clearest}" in page
    unmeasured = page.partition("*Not run here: it needs a ruler.*")[2]
    assert "| a        |       |            | 1.1 ± 0.2 |" in unmeasured  # no measured numbers, only printed ones
    assert "![Lengths](rulers_table1_small/picture.png)" in page


def test_damaged_results_are_refused(tmp_path):
    (tmp_path / "results.json").write_text('{"values": 3}')
    with pytest.raises(DataError, match="is not a file that ndformer reproduce writes"):
        read(tmp_path / "results.json")


PAPER = pages.Paper("rulers", "Rulers", [LENGTHS], without={"Figure 1": "a drawing of a ruler"})


def results(*seeds: int) -> Results:
    return Results({row: {seed: {"length": 1.0 + len(row) + seed} for seed in seeds} for row in LENGTHS.rows})


def test_an_experiment_is_measured_if_each_row_has_each_seed():
    assert pages.status(LENGTHS, "small", None) == "not run"
    assert pages.status(LENGTHS, "paper", None) == "not run: needs a ruler"
    assert pages.status(LENGTHS, "small", results(0, 1)) == "partly, 4 of 6"
    assert pages.status(LENGTHS, "small", results(0, 1, 2)) == "measured"
    assert pages.status(replace(LENGTHS, rows=("a", "long one", "new")), "small", results(0, 1, 2)) == "partly, 6 of 9"


def test_the_list_has_time_requirements_and_status(tmp_path):
    listed = pages.listed([PAPER], tmp_path)
    assert "rulers:table1                Lengths (Table 1)" in listed
    assert "small: 3 seeds, not timed; not run" in listed
    assert "paper: needs a ruler; not run" in listed
    assert "Figure 1: a drawing of a ruler" in listed
    without = pages.listed([PAPER], tmp_path / "nowhere")  # of an installed package
    assert "Status: only a clone has results" in without
    assert "not run" not in without
    timed = replace(LENGTHS, scales={"small": Scale(3, minutes=4)})
    assert "small: 3 seeds, 4 min on one core; not run" in pages.listed([PAPER._replace(experiments=[timed])], tmp_path)


def test_the_index_counts_verdicts(tmp_path):
    pages.write(LENGTHS, "small", results(0, 1, 2), tmp_path / "rulers_table1_small")
    rows = [" ".join(line.split()) for line in pages.index([PAPER], tmp_path).splitlines()]
    assert "## [Rulers](rulers.md)" in rows
    assert "| [table1](rulers.md#table1) | Table 1 | Lengths | small | measured | 1 | | | |" in rows
    assert "| [table1](rulers.md#table1) | Table 1 | Lengths | paper | not run: needs a ruler | | | | |" in rows
    assert "- Figure 1: a drawing of a ruler." in rows
    more = [replace(LENGTHS.claims[0], text=f"{whose}: it is so") for whose in ("control", "ours")]
    paper = PAPER._replace(experiments=[replace(LENGTHS, claims=(*LENGTHS.claims, *more))])
    rows = [" ".join(line.split()) for line in pages.index([paper], tmp_path).splitlines()]
    assert "| [table1](rulers.md#table1) | Table 1 | Lengths | small | measured | 1 + 2 | | | |" in rows
