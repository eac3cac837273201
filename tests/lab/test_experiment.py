"""Experiments: cells measured once, results that say no more than was measured, verdicts by their intervals."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ndformer.framework.errors import DataError, UnknownNameError
from ndformer.lab import pages, runner
from ndformer.lab.experiment import Cell, Claim, DataSet, Experiment, Results, Scale, Verdict
from ndformer.lab.verdicts import above, ahead, alike, below, each, near

PROGRAM = """
import sys
from pathlib import Path
from ndformer.lab import runner
from tests.lab.test_experiment import LENGTHS
name, _, scale, _, home, _, data, _, row, seed = sys.argv[1:]
(cell,) = [c for c in runner.cells(LENGTHS, scale, [int(seed)], Path(home)) if c.row == row]
runner.measure(LENGTHS, cell)
"""


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
    claims=(Claim("the long one is longer", lambda r: ahead(r, "long one", "a", "length")),),
    shows=("Table 1",),
)


def of(**rows: list[float]) -> Results:
    return Results({row: {seed: {"x": value} for seed, value in enumerate(values)} for row, values in rows.items()})


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n{PROGRAM}")
    return [sys.executable, str(path)]


def test_cells_are_measured_once_and_the_same_again(tmp_path, program):
    home = tmp_path / "work"
    ends = [end[:2] for end in runner.conduct(LENGTHS, "small", [0, 1], home, 2, program)]
    assert ends == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert list(runner.conduct(LENGTHS, "small", [0, 1], home, 2, program)) == []
    results = runner.measured(LENGTHS, "small", [0, 1], home)
    assert (results.of("a", "length"), results.of("long one", "twice")) == ([1.0, 1.1], [16, 16])
    pages.write(LENGTHS, "small", results, tmp_path / "out")
    first = (tmp_path / "out" / "results.json").read_text()
    pages.write(LENGTHS, "small", pages.read(tmp_path / "out" / "results.json"), tmp_path / "out")
    assert (tmp_path / "out" / "results.json").read_text() == first
    assert (tmp_path / "out" / "picture.png").stat().st_size > 1000


def test_a_cell_that_is_half_written_or_somebody_elses_is_measured_again(tmp_path):
    (cell,) = [c for c in runner.cells(LENGTHS, "small", [0], tmp_path) if c.row == "a"]
    runner.measure(LENGTHS, cell)
    whole = (cell.folder / runner.CELL).read_text()
    for spoilt in (whole[:20], json.dumps(dict(row="b", seed=0, values={})), whole.replace("1.0", "NaN"), "[]"):
        (cell.folder / runner.CELL).write_text(spoilt)
        assert runner.measured(LENGTHS, "small", [0], tmp_path).of("a", "length") == []


def test_a_cell_that_fails_ends_all_with_its_last_words(tmp_path, program):
    with pytest.raises(DataError, match=r"rulers:table1, breaks, seed 0: "):
        list(runner.conduct(replace(LENGTHS, rows=("breaks",)), "small", [0], tmp_path, 1, program))


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


def test_a_row_that_is_none_is_named(tmp_path, program):
    with pytest.raises(UnknownNameError, match="did you mean 'long one'"):
        list(runner.conduct(LENGTHS, "small", [0], tmp_path, 1, program, rows=["long on"]))


def test_a_measure_that_lacks_a_column_is_told(tmp_path):
    short = replace(LENGTHS, columns={"length": "length", "width": "width"})
    (cell, *_) = runner.cells(short, "small", [0], tmp_path)
    with pytest.raises(DataError, match="measured no width of a"):
        runner.measure(short, cell)


def test_verdicts_are_by_the_interval():
    results = of(high=[10.0, 11.0, 12.0], low=[1.0, 2.1, 2.9], wide=[0.0, 30.0, 3.0], one=[5.0])
    assert ahead(results, "high", "low", "x").word == "holds"
    assert ahead(results, "low", "high", "x").word == "does not hold"
    assert ahead(results, "wide", "low", "x").word == "not told apart"
    assert ahead(results, "high", "low", "x", by=20).word == "does not hold"
    assert above(results, "high", "x", 5).word == below(results, "low", "x", 5).word == "holds"
    assert above(results, "low", "x", 5).word == below(results, "high", "x", 5).word == "does not hold"
    assert above(results, "one", "x", 1).word == "not told apart"  # one seed tells nothing
    assert above(results, "none", "x", 1) == below(results, "none", "x", 1) == Verdict("not measured")
    assert ahead(results, "none", "low", "x") == alike(results, "low", "none", "x", 1) == Verdict("not measured")
    assert alike(results, "high", "low", "x", 20).word == "holds"
    assert alike(results, "high", "low", "x", 1).word == "does not hold"
    assert alike(results, "wide", "low", "x", 20).word == "not told apart"
    assert ahead(results, "high", "low", "x").figure.startswith("high over low in x: +9 ± 0.2")
    sizes = Results({"a": {seed: {"28": 90.0 + seed, "40": 80.0} for seed in range(3)}})
    assert ahead(sizes, "a", "a", "28", over_column="40").figure.startswith("a in 28 over 40: +11 ± ")
    assert ahead(sizes, "a", "a", "40", over_column="28").word == "does not hold"


def test_where_all_seeds_are_level_nothing_is_told_apart():
    results = of(best=[100.0, 100.0], other=[100.0, 100.0])
    assert ahead(results, "best", "other", "x").word == "not told apart"
    assert above(results, "best", "x", 100).word == below(results, "best", "x", 100).word == "not told apart"
    assert above(results, "best", "x", 99).word == "holds"
    assert below(results, "best", "x", 99).word == "does not hold"


def test_a_mean_is_near_a_number_if_all_of_its_interval_is():
    results = of(near=[5.0, 5.1, 5.2], wide=[0.0, 9.0, 6.3], off=[8.0, 8.1, 8.2])
    verdict = near(results, "near", "x", 5, 0.5)
    assert (verdict.word, verdict.figure) == ("holds", "near in x: 5.1 ± 0.248 (against 5 ± 0.5)")
    assert verdict.sure == pytest.approx(0.4 / 0.2484, rel=1e-3)
    assert near(results, "wide", "x", 5, 0.5).word == "not told apart"
    assert near(results, "off", "x", 5, 0.5).word == "does not hold"
    assert near(results, "none", "x", 5, 0.5) == Verdict("not measured")


def test_a_figure_has_the_digits_to_see_on_which_side_of_its_limit_it_is():
    results = of(just=[1.0, 1.0, 1.0])
    assert below(results, "just", "x", 1 + 1e-9).figure == "just in x: 1 ± 0 (against 1.000000001)"
    assert above(results, "just", "x", 0.5).figure == "just in x: 1 ± 0 (against 0.5)"


def test_a_claim_in_parts_is_as_weak_as_its_weakest():
    results = of(high=[10.0, 11.0], low=[1.0, 2.0], wide=[0.0, 30.0])
    strong, weak, wrong = above(results, "high", "x", 0), above(results, "wide", "x", 5), above(results, "low", "x", 50)
    assert each([strong, strong]).word == "holds"
    assert each([strong, weak]).word == "not told apart"
    assert each([strong, weak, wrong]).word == "does not hold"


def test_a_claim_in_many_parts_says_the_one_that_speaks_for_it_least_and_how_many_fail():
    results = of(close=[6.0, 6.1], far=[90.0, 91.0], wide=[0.0, 30.0], wider=[-40.0, 30.0], low=[1.0, 1.1])

    def told(*rows: str) -> str:
        return each([above(results, row, "x", 5) for row in rows]).figure

    assert told("far", "close") == f"{told('far')}; {told('close')}"
    assert told("far", "close", "far") == "close in x: 6.05 ± 0.635 (against 5); the closest of 3"
    assert told("far", "wide", "wider") == "wider in x: -5 ± 445 (against 5); not told apart: 2 of 3"
    counts = "does not hold: 1 of 4, not told apart: 2 of 4"
    assert told("wide", "low", "wide", "far") == f"{above(results, 'low', 'x', 5).figure}; {counts}"


def test_a_page_has_what_was_measured_beside_the_papers_and_marks_what_was_not(tmp_path):
    for seed in range(3):
        for cell in runner.cells(LENGTHS, "small", [seed], tmp_path):
            runner.measure(LENGTHS, cell)
    results = runner.measured(LENGTHS, "small", range(3), tmp_path)
    pages.write(LENGTHS, "small", results, tmp_path / "rulers_table1_small")
    page = pages.page("Rulers", "How long?", [LENGTHS], tmp_path)
    assert "1.100 ± 0.100 | 1.1 ± 0.2 |" in page
    rows = [" ".join(line.split()) for line in page.splitlines()]
    assert any(
        row.startswith("| the long one is longer | **holds** | long one over a in ")
        and row.endswith(" | [table1](#table1-lengths) |")
        for row in rows
    )
    unmeasured = page.partition("*Not run here: it needs a ruler.*")[2]
    assert "| a        |       |            | 1.1 ± 0.2 |" in unmeasured  # cells are empty, the paper's figures stand
    assert "![Lengths](rulers_table1_small/picture.png)" in page


def test_results_that_are_none_are_refused(tmp_path):
    (tmp_path / "results.json").write_text('{"values": 3}')
    with pytest.raises(DataError, match="is not what tools/reproduce.py writes"):
        pages.read(tmp_path / "results.json")


def test_facts_that_no_seed_changes_have_a_verdict_with_one_seed():
    """Issue 44.13: "It has no parameters ... not told apart", of one seed."""
    one = Results({"parameters": {0: {"how many": 0.0}}})
    assert below(one, "parameters", "how many", 0.5).word == "not told apart"
    fact = below(one, "parameters", "how many", 0.5, exact=True)
    assert (fact.word, fact.figure) == ("holds", "parameters in how many: 0 (against 0.5)")
    assert above(one, "parameters", "how many", 0.5, exact=True).word == "does not hold"
    assert above(one, "parameters", "how many", 0.0, exact=True).word == "does not hold"  # level is not above
    assert near(one, "parameters", "how many", 0.04, 0.05, exact=True).word == "holds"
    assert near(one, "parameters", "how many", 0.06, 0.05, exact=True).word == "does not hold"
    wide = Results({"parameters": {seed: {"how many": 0.4 * seed} for seed in range(3)}})
    assert below(wide, "parameters", "how many", 0.9, exact=True).word == "holds"  # every seed, whatever the interval
