"""The number of seeds that a comparison needs, and the smallest gain that it finds: power calculations.

seeds_needed(effect=3, sd=2)                        seeds so that a mean gain of 3 is found with 80 % power
seeds_needed(effect=3, sd=2, samples_error=1)       the same with a standard error of 1 from test samples
smallest_effect(seeds=5, sd=2, samples_error=1)     the smallest gain that 5 seeds find with 80 % power

`sd` is the standard deviation over seeds of the gain, `samples_error` the part of its standard error that comes from
the test samples. More seeds do not reduce that part: a test set can be too small for any number of seeds. Gains that
are paired by seed have S - 1 degrees of freedom; those of two independent rows have Welch's, which are 2 (S - 1) if
both vary alike (`freedom_per_seed=2`), and fewer otherwise.
"""

import math

MAX_SEEDS = 1000
POWER = 0.8


def samples_error(disagreement: float, samples: int) -> float:
    """Return the standard error of a gain from test samples, where two models differ on a share of them.

    It is an upper bound: it assumes that all seeds differ on the same samples.
    """
    return math.sqrt(disagreement / samples)


def smallest_effect(
    seeds: int,
    sd: float,
    samples_error: float = 0.0,
    confidence: float = 0.95,
    power: float = POWER,
    freedom_per_seed: float | None = None,
) -> float:
    """Return the smallest mean gain whose interval excludes 0 with this power; infinite with one seed.

    `freedom_per_seed` counts seeds after the first; by default it is 1 without test samples and 2 with them.
    """
    from scipy.special import stdtrit

    if seeds < 2:
        return math.inf
    error = math.hypot(sd / math.sqrt(seeds), samples_error)
    freedom = (freedom_per_seed or (2 if samples_error else 1)) * (seeds - 1)
    return float(stdtrit(freedom, (1 + confidence) / 2) + stdtrit(freedom, power)) * error


def seeds_needed(effect: float, sd: float, samples_error: float = 0.0, **options: float) -> int | None:
    """Return the smallest number of seeds that finds a mean gain; None if 1000 do not.

    `options` are those of smallest_effect(): confidence, power and freedom_per_seed.
    """
    low, high = 1, MAX_SEEDS
    if not effect or smallest_effect(high, sd, samples_error, **options) > abs(effect):
        return None
    while high - low > 1:  # `low` seeds are too few, `high` seeds are enough
        middle = (low + high) // 2
        if smallest_effect(middle, sd, samples_error, **options) > abs(effect):
            low = middle
        else:
            high = middle
    return high
