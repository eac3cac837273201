"""Encodings on several data sets: means, gains, ranks, missing results and their texts."""

import json
import math
import re
from typing import TypeVar

import numpy as np
import pytest

from ndformer.framework.errors import UnknownNameError
from ndformer.framework.quantity import Quantity
from ndformer.lab import paired
from ndformer.lab.rank import Cell, Compared
from ndformer.lab.rank_table import Table, text

SHARE = Quantity.create("higher", "share")
T = TypeVar("T")


def table(baseline="A", /, **sets):
    """Return a table of {set: {encoding: values of seeds 0, 1 ...}}."""

    def cell(name, values):
        return Cell(name, {str(seed): value for seed, value in enumerate(values) if value is not None})

    return Table(
        {on: Compared("accuracy", {n: cell(n, v) for n, v in one.items()}, SHARE) for on, one in sets.items()},
        baseline,
    )


def present(value: T | None) -> T:
    assert value is not None
    return value


ONE = dict(A=[0.90, 0.91, 0.92], B=[0.80, 0.82, 0.81], C=[0.91, 0.90, 0.93])
TWO = dict(A=[0.50, 0.55, 0.60], C=[0.60, 0.66, 0.69], B=[0.52, 0.50, 0.57])


def test_where_lower_values_are_better_the_lowest_mean_has_rank_1():
    """Issue 44.1: the encoding with the highest error had rank 1, and a loss was called a gain."""
    shares, errors = table(one=ONE), table(two={name: [10 * (1 - v) for v in values] for name, values in TWO.items()})
    pixels = Quantity.create("lower", "px", 1)
    lower = {"two": Compared("error", errors.sets["two"].cells, pixels)}
    both = Table(shares.sets | lower, "A")
    assert present(both.ranking).ranks == present(table(one=ONE, two=TWO).ranking).ranks
    assert present(both.gain("C", "two")).mean == pytest.approx(10 * present(table(two=TWO).gain("C", "two")).mean)
    report = text(both)
    assert "| two, error px |" in report
    assert "two, in px, positive where the value is lower" in report


def test_gains_are_paired_by_seed_on_sets_whose_training_samples_the_seed_draws():
    """As ndformer compare does; before, a gain with p = 0.017 there had p = 0.6 in a joint table."""
    shares = {"A": (700, 750, 800), "B": (726, 771, 818)}
    right = {name: {str(n): np.arange(1000) < share for n, share in enumerate(row)} for name, row in shares.items()}
    cells = {
        name: Cell(name, {n: a.mean() for n, a in row.items()}, correct={n: paired.encode(a) for n, a in row.items()})
        for name, row in right.items()
    }
    for on, by_seed in (("mnist 10 per class", True), ("mnist", False)):
        expected = present(paired.paired_gain(right["B"], right["A"], by_seed=by_seed))
        gain = present(Table({on: Compared("accuracy", cells, SHARE)}, "A").gain("B", on))
        assert (gain.half, gain.p) == (pytest.approx(expected.half), pytest.approx(expected.p))
        assert (expected.p < 0.05) == by_seed


def test_means_gains_and_ranks():
    found = table(one=ONE, two=TWO)
    gain = present(found.gain("B", "one"))
    assert gain.mean == pytest.approx(-0.10)
    assert gain.half == pytest.approx(4.302653 * 0.01 / math.sqrt(3), rel=1e-6)  # -0.10, -0.09 and -0.11
    assert found.gain("A", "one") is None
    assert present(found.ranking).ranks == {"C": 1.0, "A": 2.0, "B": 3.0}
    lines = [line for line in text(found).splitlines() if line.startswith("|")]
    assert text(found).startswith(
        "- Average ranks of 3 encodings over 2 data sets, 1 is the best: C 1.00, A 2.00, B 3.00."
    )
    assert lines[0].split(" | ")[1:] == ["average rank", "one, accuracy %", "two, accuracy % |"]
    assert re.fullmatch(r"\| C +\| +1.00 \| +91.33 ± 3.79 \| +65.00 ± 11.38 \|", lines[2])
    assert [line[2] for line in lines[2:5]] == ["C", "A", "B"]  # the best is first


def test_every_set_lists_encodings_better_and_worse_than_the_baseline():
    report = text(table(one=ONE, two=TWO))
    assert "- one: better none; worse B; no significant difference C." in report
    assert "- two: better C; worse none; no significant difference B." in report
    assert "**-10.00 ± 2.48**" in report
    assert "p < 0.05 after Holm's correction over the encodings of a data set" in report
    turned = text(table("B", one=ONE, two=TWO))
    assert "- one: better C, A; worse none; no significant difference none." in turned
    assert "| +0.33 ± 2.87 |" in re.sub(" +", " ", text(table(one=ONE, two=TWO)))


def test_gains_use_common_seeds():
    found = table(one=dict(A=[0.1, None, 0.3], B=[None, 0.9, 0.4], C=[None, 0.5, None]))
    gain = present(found.gain("B", "one"))
    assert (gain.n, gain.mean) == (1, pytest.approx(0.1))
    assert found.gain("C", "one") is None
    report = text(found)
    assert "Fewer runs: on one 1 of 2 runs: C." in report
    assert "no significant difference B." in report  # one run has no interval


def test_missing_results_are_named_and_change_no_rank():
    complete = table(one=dict(A=[0.9], C=[0.8]), two=dict(A=[0.6], C=[0.7]))
    incomplete = table(one=dict(A=[0.9], C=[0.8], D=[None]), two=dict(A=[0.6], B=[0.65], C=[0.7], D=[0.9]))
    assert incomplete.missing == [("D", "one"), ("B", "one")]
    assert incomplete.ranking == complete.ranking
    report = text(incomplete)
    assert "**Missing:** on one D, B. Nothing is put in their place, and encodings with a gap have no rank" in report
    assert re.search(r"\| B +\| +- \| +- \| +65.00 \|", report)
    assert "Missing" not in text(complete)


def test_runs_that_diverged_are_named_and_not_only_left_out():
    """Issue 47: a mean over the runs that did not diverge looked like a mean over fewer seeds."""
    cells = {
        "A": Cell("A", {"0": 0.9, "1": 0.8}),
        "B": Cell("B", {"0": 0.9}, failed={"1": "diverged: its loss is nan"}),
    }
    report = text(Table(dict(one=Compared("accuracy", cells, SHARE)), "A"))
    assert "**Runs left out:** B on one, seed 1 (diverged: its loss is nan). Means are over the other runs" in report
    assert "left out" not in text(table(one=ONE))


def test_means_that_differ_by_rounding_share_a_rank():
    found = table(one=dict(A=[0.967, 0.969], B=[0.968, 0.968]), two=dict(A=[0.1, 0.2, 0.3], B=[0.2, 0.2, 0.2]))
    a, b = (present(found.mean(name, "two")).mean for name in "AB")
    assert a != b  # 0.2 and 0.2, except for the last digit
    assert present(found.ranking).ranks == dict(A=1.5, B=1.5)


@pytest.mark.parametrize("sets", [dict(one=ONE), dict(one=dict(A=[1]), two=dict(A=[1], B=[1]))])
def test_ranks_need_two_sets_and_two_complete_encodings(sets, tmp_path):
    found = table("A", **sets)
    assert "No ranks: they need two encodings" in found.write(tmp_path)
    assert "average rank" not in text(found)
    assert json.loads((tmp_path / "comparison.json").read_text())["ranking"] is None
    assert not (tmp_path / "comparison.png").exists()


def test_texts_about_ranks_follow_the_test():
    values = dict(A=[0.9], B=[0.8], C=[0.7])
    agreed = text(table(**{f"set{i}": values for i in range(5)}))
    assert "chi2(2) = 10.00, p = 0.000772 (random orders of the ranks)." in agreed
    assert "Significantly different from A by rank: worse C; better none." in agreed  # 2 ranks, 1.48 are enough
    turned = text(table("C", **{f"set{i}": values for i in range(5)}))
    assert "Significantly different from C by rank: worse none; better A." in turned
    mixed = [dict(A=[0.9], B=[0.8], C=[0.7]), dict(A=[0.7], B=[0.8], C=[0.9])]
    chance = text(table(one=mixed[0], two=mixed[1]))
    assert "may be due to chance: no two encodings differ significantly by rank" in chance
    assert "Significantly different from" not in chance
    assert "No two of 3 encodings can differ so much: that takes 3 data sets or more." in chance


def test_known_costs_and_options_are_listed(tmp_path):
    cells = {"PaPE": Cell("PaPE(m=8)", {"0": 0.5}, 2.04, 1_500_000), "NoPE": Cell("NoPE", {"0": 0.4})}
    report = text(Table(dict(one=Compared("accuracy", cells, SHARE)), "PaPE"))
    assert re.search(r"\| PaPE +\| +1.50 M, 2.0 \|", report)
    assert re.search(r"\| NoPE +\| +- \|", report)
    assert "- PaPE is PaPE(m=8) on one." in report
    assert "minutes a run" not in text(table(one=ONE, two=TWO))


def test_files_of_a_table(tmp_path):
    found = table(one=ONE, two=TWO)
    report = found.write(tmp_path / "new")
    assert (tmp_path / "new" / "comparison.md").read_text() == report
    assert (tmp_path / "new" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "new" / "comparison.json").read_text())
    assert content["sets"]["one"]["cells"]["B"]["values"] == {"0": 0.80, "1": 0.82, "2": 0.81}
    assert content["ranking"]["ranks"] == {"C": 1.0, "A": 2.0, "B": 3.0}


def test_an_unknown_baseline_is_an_error():
    with pytest.raises(UnknownNameError, match="no comparison has Pape, did you mean 'PaPE'"):
        table("Pape", one=dict(PaPE=[0.5]))
