"""Gains paired by seed and test sample: the interval covers the truth, and Holm's correction is that of its paper."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ndformer.framework.errors import DataError
from ndformer.framework.quantity import Quantity
from ndformer.lab import paired
from ndformer.lab.interval import Summary

SHARE = Quantity.create("higher", "share")


def drawn(rng, seeds, samples, of_seed, of_sample):
    """Return the correct samples of two encodings of equal accuracy: seeds vary, and samples are easier for one."""
    easier = of_sample * rng.standard_normal(samples)
    both = [np.empty((seeds, samples)) for _ in range(2)]
    for one, sign in zip(both, (1, -1)):
        p = 0.8 + of_seed * rng.standard_normal((seeds, 1)) / math.sqrt(2) + sign * easier / 2
        one[:] = rng.random((seeds, samples)) < p
    return [dict(enumerate(one)) for one in both]


def gain(ours, theirs, spread=None):
    found = paired.paired_gain(ours, theirs, spread)
    assert found is not None
    return found


def over(values, base, texts: Any = ({}, {})):
    found = paired.gain_over(values, base, texts[0], texts[1], SHARE)
    assert found is not None
    return found


def slow_contrast(*groups):
    """Return a sum of signed means, the variances from the seeds of each, and that from the samples, by entries."""
    means, seeds, noise, n = [], [], 0.0, len(next(iter(groups[0][1].values())))
    by_sample = [0.0] * n
    for sign, group in groups:
        runs = [list(map(float, run)) for run in group.values()]
        S, accuracies = len(runs), [sum(run) / n for run in runs]
        columns = [sum(run[j] for run in runs) / S for j in range(n)]
        by_sample = [value + sign * column for value, column in zip(by_sample, columns)]
        mean = sum(accuracies) / S
        means.append(sign * mean)
        rest = sum((runs[i][j] - accuracies[i] - columns[j] + mean) ** 2 for i in range(S) for j in range(n))
        rest /= (S - 1) * (n - 1)
        noise += rest / S
        seeds.append(max(sum((a - mean) ** 2 for a in accuracies) / (S - 1), 1 / n**2) / S)
    mean = sum(means)
    samples = sum((value - mean) ** 2 for value in by_sample) / (n - 1) - noise
    return mean, seeds, max(0.0, samples) / n


@pytest.mark.parametrize("second", [4, 3])
def test_the_error_is_that_of_seeds_and_samples(second):
    ours, theirs = drawn(np.random.default_rng(0), 4, 60, 0.03, 0.1)
    theirs = {seed: theirs[seed] for seed in range(second)}
    result = gain(ours, theirs)
    mean, (a, b), samples = slow_contrast((1, ours), (-1, theirs))
    assert result.mean == pytest.approx(mean, abs=1e-12)
    assert result.error == pytest.approx(math.sqrt(a + b + samples), abs=1e-12)
    assert result.freedom == pytest.approx((a + b) ** 2 / (a**2 / 3 + b**2 / (second - 1)))  # Welch (1947)
    assert result.half == pytest.approx(stats.t.ppf(0.975, result.freedom) * result.error, abs=1e-12)
    assert result.p == pytest.approx(2 * stats.t.sf(abs(result.mean) / result.error, result.freedom), abs=1e-12)
    pooled = gain(ours, theirs, paired.Spread(0.25, 40))
    assert pooled.error == pytest.approx(math.sqrt(0.25 / 4 + 0.25 / second + samples), abs=1e-12)
    assert (pooled.mean, pooled.freedom) == (result.mean, 40)


def test_without_test_samples_that_differ_it_is_welchs_test():
    rng = np.random.default_rng(8)
    runs = [{seed: np.full(500, value) for seed, value in enumerate(rng.random(count))} for count in (4, 6)]
    expected: Any = stats.ttest_ind(*([run[0] for run in one.values()] for one in runs), equal_var=False)
    result = gain(*runs)
    assert (result.p, result.freedom) == pytest.approx((expected.pvalue, expected.df))


def test_a_pooled_spread_is_that_of_one_way_analysis_of_variance():
    rows = [dict(enumerate(values)) for values in ([1.0, 2.0, 4.0], [5.0, 5.5], [7.0])]
    spread = paired.pool(rows)
    assert spread.freedom == 3
    assert spread.variance == pytest.approx((2 * np.var([1, 2, 4], ddof=1) + np.var([5, 5.5], ddof=1)) / 3)


def test_three_seeds_that_are_alike_by_chance_are_no_certainty():
    """With Satterthwaite's degrees of freedom of seeds and samples, 2 % of the p-values were below 0.01."""
    rng = np.random.default_rng(9)
    p = np.array([gain(*drawn(rng, 3, 250, 0.0, 0.25)).p for _ in range(2000)])
    assert (p < 0.01).mean() <= 0.01
    assert (p < 0.05).mean() <= 0.05


@pytest.mark.parametrize(
    "seeds, samples, of_seed, of_sample", [(3, 250, 0.1, 0.05), (5, 400, 0.0, 0.2), (8, 150, 0.02, 0.2)]
)
def test_the_interval_covers_the_truth(seeds, samples, of_seed, of_sample):
    """A bootstrap over three seeds covers it in 86 % of such cases."""
    rng = np.random.default_rng(1)
    gains = [gain(*drawn(rng, seeds, samples, of_seed, of_sample)) for _ in range(400)]
    assert 0.915 <= np.mean([abs(one.mean) <= one.half for one in gains]) <= 0.985


def test_another_test_set_would_change_a_mean_that_all_seeds_share():
    rng = np.random.default_rng(2)
    same = (rng.random(100) < 0.7).astype(float)
    ours = dict.fromkeys(range(5), same)
    theirs = dict.fromkeys(range(5), np.roll(same, 1))
    found = gain(ours, theirs)
    assert found.mean == 0
    error = math.sqrt(np.var(same - np.roll(same, 1), ddof=1) / 100 + 2 / 100**2 / 5)  # the seeds' is the resolution
    assert found.half == pytest.approx(stats.t.ppf(0.975, 8) * error)


def test_errors_on_different_samples_with_equal_accuracies_are_no_certainty():
    """One error of 153 samples with each of three seeds, against none, had p = 0 and ± 0."""
    ours = dict.fromkeys(range(3), np.ones(153))
    theirs = {seed: np.arange(153) != seed for seed in range(3)}
    assert gain(ours, theirs).p > 0.2
    rng = np.random.default_rng(10)
    with_accuracy = lambda accuracy: {seed: rng.random(153) < accuracy for seed in range(3)}
    pairs = [gain(with_accuracy(0.999), with_accuracy(0.99)) for _ in range(600)]
    assert np.mean([abs(one.mean - 0.009) <= one.half for one in pairs]) >= 0.97


def test_runs_of_a_seed_are_paired_where_it_draws_their_training_samples():
    """Accuracies of 70, 75 and 80 % and gains of 2.6, 2.1 and 1.8 points were not significant."""
    rng = np.random.default_rng(11)
    theirs, ours = {}, {}
    for seed, (share, more) in enumerate(zip((700, 750, 800), (26, 21, 18))):
        theirs[seed] = rng.permutation(np.arange(1000) < share)
        ours[seed] = theirs[seed] | (np.cumsum(~theirs[seed]) <= more)
    result = paired.paired_gain(ours, theirs, by_seed=True)
    assert result is not None
    assert (result.mean, result.freedom) == (pytest.approx(0.0217, abs=1e-4), 2)
    assert result.p < 0.05 < gain(ours, theirs).p
    del theirs[2]
    fewer = paired.paired_gain(ours, theirs, by_seed=True)
    assert fewer is not None
    assert fewer.mean == pytest.approx(0.0235)


def test_holm_is_that_of_the_worked_example():
    # Holm (1979): the smallest p times the number of tests, then one test fewer each; never smaller than the one before
    assert paired.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.6, 0.5]) == [1.0, 1.0]
    assert paired.holm([]) == []


def test_without_samples_the_interval_is_students_over_seeds():
    values, base = {0: 0.9, 1: 0.92, 2: 0.95}, {0: 0.88, 1: 0.91, 2: 0.9, 3: 0.1}
    found = over(values, base)
    plain = Summary.from_values([0.02, 0.01, 0.05])
    assert (found.n, found.mean, found.half) == pytest.approx((3, plain.mean, plain.half))
    t = plain.mean / (plain.sd or 0.0) * math.sqrt(3)
    assert found.p == pytest.approx(2 * stats.t.sf(t, 2))


def test_equal_gains_of_all_seeds_are_no_certainty():
    """Three seeds that each gain one of 250 samples had p = 0 and ± 0."""
    same = over({0: 0.904, 1: 0.904, 2: 0.904}, {0: 0.9, 1: 0.9, 2: 0.9})
    assert (same.half, same.margin, same.p) == (None, None, 1.0)
    assert paired.significant({"A": same}) == {"A": 0}
    shifted = over({0: 0.904, 1: 0.924, 2: 0.914}, {0: 0.9, 1: 0.92, 2: 0.91})
    assert shifted.half == pytest.approx(stats.t.ppf(0.975, 2) * 0.01 * math.sqrt(2 / 3))  # the spread of the runs
    assert paired.significant({"A": shifted}) == {"A": 0}
    far = over({0: 0.9, 1: 0.91, 2: 0.92}, {0: 0.5, 1: 0.51, 2: 0.52})
    assert paired.significant({"A": far}) == {"A": 1}


def test_runs_on_other_test_data_are_not_paired(tmp_path):
    """Issue 47: any two test sets of equal size were paired, sample by sample."""
    rng = np.random.default_rng(6)
    samples = [rng.random(40) < 0.8 for _ in range(6)]

    def texts(runs, data):
        return {seed: paired.encode(run) + paired.digest(data(seed)) for seed, run in enumerate(runs)}

    ours, theirs = samples[:3], samples[3:]
    values, base = ({seed: float(run.mean()) for seed, run in enumerate(runs)} for runs in (ours, theirs))
    one = lambda seed: dict(samples=40, like=[seed])  # `like` is not compared
    crossed = over(values, base, (texts(ours, one), texts(theirs, one)))
    assert crossed.half == pytest.approx(gain(dict(enumerate(ours)), dict(enumerate(theirs))).half)
    with pytest.raises(DataError, match="seed 1: expected the same test data"):
        over(values, base, (texts(ours, one), texts(theirs, lambda seed: dict(samples=40 + (seed == 1)))))
    folds = lambda seed: dict(samples=40, fold=seed)  # test sets of their own: no sample is in two of them
    by_folds = over(values, base, (texts(ours, folds), texts(theirs, folds)))
    assert by_folds.half == pytest.approx(Summary.from_values([values[s] - base[s] for s in values]).half)
    paired.record(tmp_path, ours[0], dict(samples=40))
    assert (paired.decode(paired.load(tmp_path) or "") == ours[0]).all()


def test_seeds_of_one_fold_are_one_value():
    """Issue 47: three folds with ten seeds counted as 30 values, and half of all intervals missed the true gain."""
    rng = np.random.default_rng(8)
    misses = 0
    for _ in range(400):
        by_fold = rng.normal(0.02, 0.02, 3)  # true gains in three folds
        keys = [(fold, f"seed {seed}, fold {fold}") for seed in range(10) for fold in range(3)]
        values = {key: 0.8 + by_fold[fold] + rng.normal(0, 0.01) for fold, key in keys}
        found = over(values, {key: 0.8 + rng.normal(0, 0.01) for _, key in keys}, ({}, {}))
        assert found.n == 3
        misses += abs(found.mean - 0.02) > (found.half or 0.0)
    assert 0.015 < misses / 400 < 0.085
    assert paired.by_fold({0: 0.1, 1: 0.2}) == {0: 0.1, 1: 0.2}
    one_fold = {"seed 0, fold 2": 0.1, "seed 1, fold 2": 0.3}
    assert paired.by_fold(one_fold) == one_fold


def test_gains_that_were_chosen_among_more_are_corrected_for_all_of_them():
    assert paired.holm([0.01, 0.5], comparisons=6) == pytest.approx([0.06, 1.0])
    gains = {"a": Summary(5, 0.1, 0.1, 0.09, p=0.01), "b": Summary(5, 0.1, 0.1, 0.2, p=0.5)}
    assert paired.significant(gains) == {"a": 1, "b": 0}
    assert paired.significant(gains, comparisons=6) == {"a": 0, "b": 0}


def test_an_interaction_is_the_difference_of_two_gains():
    rng = np.random.default_rng(7)
    a, b, c, d = ({seed: rng.random(200) < share for seed in range(4)} for share in (0.9, 0.7, 0.8, 0.75))
    found = paired.interaction((a, b), (c, d))
    assert found is not None
    mean, seeds, samples = slow_contrast((1, a), (-1, b), (-1, c), (1, d))
    assert (found.mean, found.error) == pytest.approx((mean, math.sqrt(sum(seeds) + samples)))
    assert paired.interaction((a, b), (c, {0: d[0]})) is None


def test_samples_of_another_metric_are_not_used():
    rng = np.random.default_rng(4)
    texts = tuple({seed: paired.encode(rng.random(40) < 0.8) for seed in range(3)} for _ in range(2))
    values, base = ({seed: paired.decode(text).mean() for seed, text in one.items()} for one in texts)
    with_samples = over(values, base, texts)
    other = {seed: value / 2 for seed, value in values.items()}
    without = over(other, base, texts)
    expected = gain(*({seed: paired.decode(text) for seed, text in one.items()} for one in texts))
    assert with_samples.half == pytest.approx(expected.half)
    assert without.half == pytest.approx(Summary.from_values([other[s] - base[s] for s in other]).half)


def test_only_gains_that_survive_the_correction_count():
    gains = {"A": Summary(3, 0.1, 0.1, 0.05, 0.01), "B": Summary(3, -0.1, 0.1, 0.09, 0.04), "C": None}
    assert paired.significant(gains) == dict(A=1, B=-1, C=0)
    gains["D"] = Summary(3, 0.1, 0.1, 0.09, 0.03)
    assert paired.significant(gains) == dict(A=1, B=0, C=0, D=0)


def test_correct_samples_are_the_same_after_a_round_trip(tmp_path):
    correct = np.random.default_rng(5).random(1001) < 0.5
    paired.record(tmp_path, correct)
    assert (paired.decode(paired.load(tmp_path) or "") == correct).all()
    assert paired.load(tmp_path / "nothing") is None
    with pytest.raises(ValueError, match="expected 9 bits, got 8"):
        paired.decode("9:ff")
