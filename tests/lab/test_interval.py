"""Means and their intervals against printed tables."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ndformer.framework.quantity import Quantity
from ndformer.lab.interval import Summary, difference, interval, mean, student_t, welch

TABLE = {  # two-sided 95 % and 99 % points, as statistics books print them
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    6: (2.447, 3.707),
    9: (2.262, 3.250),
    10: (2.228, 3.169),
    19: (2.093, 2.861),
    20: (2.086, 2.845),
    30: (2.042, 2.750),
    120: (1.980, 2.617),
}


@pytest.mark.parametrize("freedom", TABLE)
def test_students_t_agrees_with_the_tables(freedom):
    assert round(student_t(freedom), 3) == TABLE[freedom][0]
    assert round(student_t(freedom, 0.99), 3) == TABLE[freedom][1]


def test_a_summary_has_mean_deviation_and_interval():
    found = Summary.from_values([0.90, 0.92, 0.97])
    assert found.n == 3
    assert found.mean == pytest.approx(0.93)
    sd = math.sqrt((0.03**2 + 0.01**2 + 0.04**2) / 2)
    assert found.sd == pytest.approx(sd)
    assert found.half == pytest.approx(4.302653 * sd / math.sqrt(3), rel=1e-6)


def test_one_run_has_no_interval():
    one = Summary.from_values([0.5])
    assert (one.sd, one.half) == (None, None)


def test_a_difference_of_rows_has_welchs_interval():
    """Rows of other lengths and spreads, against SciPy; its intervals contain the true difference in 95 % of cases."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(3, 1, 3).tolist(), rng.normal(1, 4, 5).tolist()
    summary = Summary.from_difference(first, second)
    reference: Any = stats.ttest_ind(first, second, equal_var=False)
    low, high = reference.confidence_interval(0.95)
    assert (summary.n, summary.mean) == (3, pytest.approx(np.mean(first) - np.mean(second)))
    assert (summary.half, summary.p) == (pytest.approx((high - low) / 2), pytest.approx(reference.pvalue))
    assert welch(first, second)[1] == pytest.approx(reference.df)
    assert summary.sd == pytest.approx(math.hypot(np.std(first, ddof=1), np.std(second, ddof=1)))
    assert Summary.from_difference([1.0], first).half is None
    rows = [(rng.normal(0, 1, 3).tolist(), rng.normal(0, 2, 4).tolist()) for _ in range(2000)]
    draws = [Summary.from_difference(*pair) for pair in rows]
    assert 0.935 < np.mean([abs(draw.mean) < (draw.half or 0) for draw in draws]) < 0.97


SHARE, PIXELS = Quantity.create("higher", "share"), Quantity.create("lower", "px", 1)


def test_too_few_runs_have_no_interval():
    """Issue 44.11: two seeds had "-59.91 to 120.51 %"."""
    two, three = Summary.from_values([0.2, 0.4]), Summary.from_values([0.30, 0.31, 0.32])
    assert two.margin is None
    assert interval(two, SHARE) == "-"
    assert mean(two, SHARE) == "30.00"
    assert difference(two, SHARE) == "+30.00"
    assert mean(three, SHARE) == "31.00 ± 2.48"


def test_intervals_of_shares_stay_within_0_and_100_percent():
    """Issue 44.11"""
    assert interval(Summary.from_values([0.90, 0.95, 1.0]), SHARE) == "82.58 to 100.00"
    assert interval(Summary.from_values([0.0, 0.01, 0.05]), SHARE) == "0.00 to 8.57"
    assert mean(Summary.from_values([0.90, 0.95, 1.0]), SHARE) == "95.00 (82.58 to 100.00)"
    assert interval(Summary.from_values([0.0, 1.0, 5.0]), PIXELS) == "-4.6 to 8.6"
    assert mean(Summary.from_values([-1.0, -1.0, -1.0]), SHARE) == "-100.00 ± 0.00"  # COCO's -1: no object of that size
