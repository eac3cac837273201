"""The list and the index of the laboratory say how far each experiment is."""

from dataclasses import replace

from ndformer.lab import index, pages
from ndformer.lab.experiment import Scale
from ndformer.lab.results import Results
from tests.lab.test_experiment import LENGTHS

PAPER = index.Paper("rulers", "Rulers", [LENGTHS], without={"Figure 1": "a drawing of a ruler"})


def results(*seeds: int) -> Results:
    return Results({row: {seed: {"length": 1.0 + len(row) + seed} for seed in seeds} for row in LENGTHS.rows})


def test_an_experiment_is_measured_when_each_row_has_each_seed():
    assert index.status(LENGTHS, "small", None) == "not run"
    assert index.status(LENGTHS, "paper", None) == "not run: needs a ruler"
    assert index.status(LENGTHS, "small", results(0, 1)) == "partly, 4 of 6"
    assert index.status(LENGTHS, "small", results(0, 1, 2)) == "measured"
    assert index.status(replace(LENGTHS, rows=("a", "long one", "new")), "small", results(0, 1, 2)) == "partly, 6 of 9"


def test_the_list_has_time_data_and_how_far_it_is(tmp_path):
    listed = index.listed([PAPER], tmp_path)
    assert "rulers:table1                Lengths (Table 1)" in listed
    assert "small: 3 seeds, not timed; not run" in listed
    assert "paper: needs a ruler; not run" in listed
    assert "Figure 1: a drawing of a ruler" in listed
    timed = replace(LENGTHS, scales={"small": Scale(3, minutes=4)})
    assert "small: 3 seeds, 4 min on one core; not run" in index.listed([PAPER._replace(experiments=[timed])], tmp_path)


def test_the_index_counts_verdicts_of_what_was_measured(tmp_path):
    pages.write(LENGTHS, "small", results(0, 1, 2), tmp_path / "rulers_table1_small")
    rows = [" ".join(line.split()) for line in index.index([PAPER], tmp_path).splitlines()]
    assert "## [Rulers](rulers.md)" in rows
    assert "| [table1](rulers.md#table1) | Table 1 | Lengths | small | measured | 1 | | | |" in rows
    assert "| [table1](rulers.md#table1) | Table 1 | Lengths | paper | not run: needs a ruler | | | | |" in rows
    assert "- Figure 1: a drawing of a ruler." in rows
    more = [replace(LENGTHS.claims[0], text=f"{whose}: it is so") for whose in ("control", "ours")]
    paper = PAPER._replace(experiments=[replace(LENGTHS, claims=(*LENGTHS.claims, *more))])
    rows = [" ".join(line.split()) for line in index.index([paper], tmp_path).splitlines()]
    assert "| [table1](rulers.md#table1) | Table 1 | Lengths | small | measured | 1 + 2 | | | |" in rows
