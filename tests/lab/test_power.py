"""Power calculations: the predicted power is that of simulated comparisons."""

import math

import numpy as np
import pytest
from scipy import stats

from ndformer.lab.paired import paired_gain
from ndformer.lab.power import samples_error, seeds_needed, smallest_effect


@pytest.mark.parametrize("effect, sd", [(1.0, 0.5), (1.0, 1.0), (3.0, 4.0)])
def test_the_number_of_seeds_has_the_power_that_it_promises(effect, sd):
    rng = np.random.default_rng(0)
    seeds = seeds_needed(effect, sd)
    assert seeds is not None

    def power(n: int) -> float:
        gains = effect + sd * rng.standard_normal((4000, n))
        half = stats.t.ppf(0.975, n - 1) * gains.std(1, ddof=1) / math.sqrt(n)
        return float(np.mean(gains.mean(1) > half))

    assert power(seeds) > 0.76
    assert power(seeds - 1) < 0.82


def test_test_samples_limit_what_any_number_of_seeds_finds():
    error = samples_error(disagreement=0.3, samples=153)  # two models that differ on 30 % of 153 samples
    assert error == pytest.approx(0.0443, abs=1e-4)
    assert smallest_effect(10**6, 0.02, error) == pytest.approx(2.80 * error, rel=1e-2)
    assert seeds_needed(0.03, 0.02, error) is None
    assert seeds_needed(0.15, 0.02, error) is not None
    assert smallest_effect(1, 0.02) == math.inf
    assert seeds_needed(0.0, 0.02) is None


def test_seeds_and_samples_together_have_the_power_that_is_predicted():
    """Two encodings that differ on the same 8 % of 500 samples with all seeds, and by seed."""
    rng, S, n, sd = np.random.default_rng(1), 4, 500, 0.02
    effect = smallest_effect(S, math.hypot(sd, math.sqrt(0.1 / n)), samples_error(0.08, n))
    found = []
    for _ in range(300):
        sample = rng.choice([-1.0, 0.0, 1.0], n, p=[0.04 - effect / 2, 0.92, 0.04 + effect / 2])
        of_seed = sd * rng.standard_normal((2, S, 1)) + math.sqrt(0.1) * rng.standard_normal((2, S, n))
        ours, theirs = of_seed / math.sqrt(2) + np.stack([sample, np.zeros(n)])[:, None]
        gain = paired_gain(dict(enumerate(ours)), dict(enumerate(theirs)))
        assert gain is not None
        found.append(gain.mean > gain.half)
    assert 0.7 < np.mean(found) < 0.92
