"""Friedman's test and Nemenyi's critical difference against printed tables, a published example, and counting."""

import itertools
import math
import random

import pytest

from ndformer.framework.engine.studies.friedman import (
    chi2_tail,
    critical_difference,
    f_tail,
    groups,
    q,
    range_below,
    ranking,
    ranks,
)

Q = {  # as Demsar 2006 prints them, Table 5a, at 0.05 and 0.10
    2: (1.960, 1.645),
    3: (2.343, 2.052),
    4: (2.569, 2.291),
    5: (2.728, 2.459),
    6: (2.850, 2.589),
    7: (2.949, 2.693),
    8: (3.031, 2.780),
    9: (3.102, 2.855),
    10: (3.164, 2.920),
}
AUC = """
0.763 0.768 0.771 0.798
0.599 0.591 0.590 0.569
0.954 0.971 0.968 0.967
0.628 0.661 0.654 0.657
0.882 0.888 0.886 0.898
0.936 0.931 0.916 0.931
0.661 0.668 0.609 0.685
0.583 0.583 0.563 0.625
0.775 0.838 0.866 0.875
1.000 1.000 1.000 1.000
0.940 0.962 0.965 0.962
0.619 0.666 0.614 0.669
0.972 0.981 0.9751 0.975
0.957 0.978 0.946 0.970
"""  # his Table 6: C4.5 with its m, its cf, none or both of them chosen, on 14 sets.
# Two figures are alike as printed (0.975) whose ranks are 2 and 3 in his averages: hence the fourth digit.
ROWS = [[float(value) for value in line.split()] for line in AUC.strip().splitlines()]


@pytest.mark.parametrize("names", Q)
def test_q_is_that_of_the_printed_table(names):
    for alpha, printed in zip((0.05, 0.10), Q[names]):
        assert abs(q(names, alpha) - printed) < 0.00101  # it is rounded, one way or the other


def test_the_range_of_normal_numbers_where_it_has_a_formula_and_by_counting():
    for width in (0.5, 2.0, 4.0):  # two: their difference is normal, with a variance of 2
        assert range_below(width, 2) == pytest.approx(math.erf(width / 2), abs=1e-13)
    drawn, rng = 20_000, random.Random(0)
    few = 0
    for _ in range(drawn):
        values = [rng.gauss(0, 1) for _ in range(7)]
        few += max(values) - min(values) < 3.0
    assert range_below(3.0, 7) == pytest.approx(few / drawn, abs=4 * 0.5 / drawn**0.5)


def test_the_published_example():
    found = ranking(dict(zip(("C4.5", "m", "cf", "both"), zip(*ROWS))))
    assert {name: round(rank, 3) for name, rank in found.ranks.items()} == {
        "both": 1.964,
        "m": 2.0,
        "cf": 2.893,
        "C4.5": 3.143,
    }
    assert found.apart == pytest.approx(1.25, abs=0.005)
    assert found.groups == [["both", "m", "cf", "C4.5"]]
    assert critical_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=0.005)
    assert groups(found.ranks, 1.12) == [["both", "m", "cf"], ["cf", "C4.5"]]  # where he tells two apart from C4.5
    tied = sum(sum(row.count(v) ** 2 - 1 for v in row) for row in ROWS)  # t^3 - t of each tie: t times t^2 - 1
    uncorrected = found.chi2 * (1 - tied / (14 * 4 * 15))  # as he prints it, without the correction for ties
    assert uncorrected == pytest.approx(9.28, abs=0.005)
    assert 13 * uncorrected / (14 * 3 - uncorrected) == pytest.approx(3.69, abs=0.005)
    assert found.f == pytest.approx(13 * found.chi2 / (14 * 3 - found.chi2), rel=1e-12)


def test_chi2_is_demsars_formula_where_nothing_is_tied():
    rng = random.Random(1)
    scores = {name: [rng.random() for _ in range(6)] for name in "abcde"}
    found = ranking(scores)
    placed = {
        name: [1 + sum(scores[other][i] > scores[name][i] for other in scores) for i in range(6)] for name in scores
    }
    squares = sum((sum(places) / 6) ** 2 for places in placed.values())
    assert found.chi2 == pytest.approx(12 * 6 / (5 * 6) * (squares - 5 * 6**2 / 4), rel=1e-12)
    assert found.ranks == pytest.approx({name: sum(places) / 6 for name, places in placed.items()})
    assert list(found.ranks.values()) == sorted(found.ranks.values())


def simpson(density, low, high, pieces=20_000):
    step = (high - low) / pieces
    inner = sum((4 if i % 2 else 2) * density(low + i * step) for i in range(1, pieces))
    return step / 3 * (density(low) + inner + density(high))


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 17])
def test_the_tail_of_chi2_is_the_integral_of_its_density(freedom):
    def density(x):
        return x ** (freedom / 2 - 1) * math.exp(-x / 2) / (2 ** (freedom / 2) * math.gamma(freedom / 2))

    assert chi2_tail(9.0, freedom) == pytest.approx(simpson(density, 9.0, 150.0), abs=1e-10)
    assert chi2_tail(0.0, freedom) == 1


@pytest.mark.parametrize("above, below", [(1, 1), (3, 39), (17, 68), (2, 4), (24, 96)])
def test_the_tail_of_f_is_the_integral_of_its_density(above, below):
    def density(u):  # of u = 1 / x, whose range is bounded
        if u == 0:
            return 0.0
        x = 1 / u
        log = above / 2 * math.log(above) + below / 2 * math.log(below) + (above / 2 - 1) * math.log(x)
        return math.exp(log - (above + below) / 2 * math.log(below + above * x) - beta) * x**2

    beta = math.lgamma(above / 2) + math.lgamma(below / 2) - math.lgamma((above + below) / 2)
    if below > 2:
        assert f_tail(1.7, above, below) == pytest.approx(simpson(density, 0.0, 1 / 1.7), abs=1e-9)
    else:  # Cauchy's: the tangent of an angle
        assert f_tail(1.7, 1, 1) == pytest.approx(1 - 2 / math.pi * math.atan(math.sqrt(1.7)), abs=1e-12)
    assert f_tail(0.0, above, below) == pytest.approx(1, abs=1e-9)


def test_tails_at_the_printed_critical_values():
    for freedom, value in {1: 3.841, 2: 5.991, 3: 7.815, 10: 18.307}.items():
        assert chi2_tail(value, freedom) == pytest.approx(0.05, abs=2e-5)
    for (above, below), value in {(3, 39): 2.845, (4, 10): 3.478, (1, 5): 6.608}.items():
        assert f_tail(value, above, below) == pytest.approx(0.05, abs=3e-5)


def test_ranks_of_equal_values_are_shared():
    assert ranks([0.5, 0.9, 0.5, 0.1]) == [2.5, 1, 2.5, 4]
    for values in itertools.product([1, 2, 3], repeat=4):
        places = sorted(range(4), key=lambda i: -values[i])
        shared = [[p + 1 for p, i in enumerate(places) if values[i] == value] for value in values]
        assert ranks(values) == [sum(some) / len(some) for some in shared]


def test_sets_that_agree_and_sets_that_tell_nothing():
    agreed = ranking(dict(a=[3, 3, 3], b=[2, 2, 2], c=[1, 1, 1]))
    assert (agreed.chi2, agreed.f, agreed.p) == (pytest.approx(6), None, 0)
    tied = ranking(dict(a=[1, 1], b=[1, 1]))
    assert (tied.chi2, tied.chi2_p, tied.f, tied.p) == (0, 1, 0, pytest.approx(1))
    assert tied.groups == [["a", "b"]]


def test_without_a_difference_among_all_no_two_are_told_apart():
    rng = random.Random(3)  # ten of chance: of 45 pairs some lie apart, once in a while
    some = [ranking({n: [rng.random() for _ in range(4)] for n in "abcdefghij"}) for _ in range(60)]
    alike = [one for one in some if one.p >= 0.05]
    assert len(alike) > 40
    assert all(one.groups == [list(one.ranks)] for one in alike)
    assert any(one.groups != groups(one.ranks, one.apart) for one in alike)


def test_groups_are_the_longest_runs_and_a_difference_of_just_so_much_is_told_apart():
    average = dict(a=1.0, b=2.0, c=2.5, d=4.0, e=6.0)
    assert groups(average, 2.0) == [["a", "b", "c"], ["c", "d"]]  # b and d differ by 2, d and e too
    assert groups(average, 2.1) == [["a", "b", "c"], ["b", "c", "d"], ["d", "e"]]
    assert groups(average, 0.1) == []
    assert groups(average, 9.0) == [list("abcde")]


def test_the_critical_difference_is_the_papers():
    assert critical_difference(4, 14) == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), rel=3e-4)
