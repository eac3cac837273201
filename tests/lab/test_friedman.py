"""Friedman's test and Nemenyi's critical difference against printed tables and a published example."""

import itertools
import math
import random

import pytest
from scipy import stats

from ndformer.lab.friedman import critical_difference, groups, nemenyi_q, ranking

Q = {  # Demsar 2006, Table 5a, at 0.05 and 0.10
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
"""  # Table 6: C4.5, with m, cf, or both of them tuned, on 14 sets.
# Two printed values are equal (0.975) but have ranks 2 and 3 in the averages: hence the fourth digit.
ROWS = [[float(value) for value in line.split()] for line in AUC.strip().splitlines()]


@pytest.mark.parametrize("names", Q)
def test_q_agrees_with_the_printed_table(names):
    for alpha, printed in zip((0.05, 0.10), Q[names]):
        assert abs(nemenyi_q(names, alpha) - printed) < 0.00101  # rounded up or down


def test_the_published_example():
    found = ranking(dict(zip(("C4.5", "m", "cf", "both"), zip(*ROWS))))
    assert {name: round(rank, 3) for name, rank in found.ranks.items()} == {
        "both": 1.964,
        "m": 2.0,
        "cf": 2.893,
        "C4.5": 3.143,
    }
    assert found.critical == pytest.approx(1.25, abs=0.005)
    assert found.groups == [["both", "m", "cf", "C4.5"]]
    assert critical_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=0.005)
    assert groups(found.ranks, 1.12) == [["both", "m", "cf"], ["cf", "C4.5"]]  # two differ from C4.5 in the paper
    tied = sum(sum(row.count(v) ** 2 - 1 for v in row) for row in ROWS)  # t^3 - t of each tie: t times t^2 - 1
    uncorrected = found.chi2 * (1 - tied / (14 * 4 * 15))  # as printed, without the correction for ties
    assert uncorrected == pytest.approx(9.28, abs=0.005)
    f = 13 * found.chi2 / (14 * 3 - found.chi2)  # Iman and Davenport's statistic, which holds for many sets
    assert found.p == pytest.approx(stats.f.sf(f, 3, 39), abs=0.003)


def test_chi2_is_demsars_formula_without_ties():
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


def by_enumeration(rows):
    """Return the share of all orders of all sets but the first whose rank sums have as large a spread."""
    spread = lambda rows: sum(sum(column) ** 2 for column in zip(*rows))
    orders = itertools.product([rows[0]], *(list(itertools.permutations(row)) for row in rows[1:]))
    spreads = [spread(rows) for rows in orders]
    return sum(one >= spread(rows) for one in spreads) / len(spreads)


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 2, 3, 4, 5), (1, 2, 3, 5, 4)],
        [(1, 2, 3), (1, 2, 3), (1, 3, 2)],
        [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 4, 3)],
        [(1, 2)] * 7 + [(2, 1)],
        [(1.5, 1.5, 3), (1, 2, 3), (1, 2, 3)],
    ],
)
def test_p_is_exact_for_few_sets(rows):
    """By F it was 0.007, 0.049, 0.0015 and 0.020 of the first four."""
    names = "abcde"[: len(rows[0])]
    result = ranking({name: [-row[i] for row in rows] for i, name in enumerate(names)})
    exact = by_enumeration(rows)
    assert result.p == pytest.approx(exact, abs=5 * math.sqrt(exact / 100_000))


def test_ranks_of_equal_values_are_shared():
    found = ranking(dict(a=[0.5, 3], b=[0.9, 2], c=[0.5, 1], d=[0.1, 0]))
    assert found.ranks == dict(a=1.75, b=1.5, c=2.75, d=4.0)


def test_sets_that_agree_and_sets_with_ties_only():
    agreed = ranking(dict(a=[3, 3, 3], b=[2, 2, 2], c=[1, 1, 1]))
    assert (agreed.chi2, agreed.p) == (pytest.approx(6), pytest.approx(1 / 36))  # 6 orders, three sets
    two = ranking(dict(a=[0.9, 0.8], b=[0.5, 0.4]))  # two sets of two agree by chance in every other case
    assert (two.p, two.groups) == (pytest.approx(0.5), [["a", "b"]])
    shared = ranking(dict(a=[3, 3], b=[1, 1], c=[1, 1]))
    assert shared.p == pytest.approx(1 / 3)  # which of three is first
    tied = ranking(dict(a=[1, 1], b=[1, 1]))
    assert (tied.chi2, tied.p) == (0, 1)
    assert tied.groups == [["a", "b"]]


def test_without_an_overall_difference_no_two_differ():
    rng = random.Random(3)  # with ten random names some of the 45 pairs differ by chance
    some = [ranking({n: [rng.random() for _ in range(4)] for n in "abcdefghij"}) for _ in range(60)]
    alike = [one for one in some if one.p >= 0.05]
    assert len(alike) > 40
    assert all(one.groups == [list(one.ranks)] for one in alike)
    assert any(one.groups != groups(one.ranks, one.critical) for one in alike)


def test_groups_are_the_longest_runs_below_the_critical_difference():
    average = dict(a=1.0, b=2.0, c=2.5, d=4.0, e=6.0)
    assert groups(average, 2.0) == [["a", "b", "c"], ["c", "d"]]  # b and d differ by 2, d and e too
    assert groups(average, 2.1) == [["a", "b", "c"], ["b", "c", "d"], ["d", "e"]]
    assert groups(average, 0.1) == []
    assert groups(average, 9.0) == [list("abcde")]
