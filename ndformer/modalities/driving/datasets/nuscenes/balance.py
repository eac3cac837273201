"""Class-balanced resampling (CBGS, Zhu 2019): samples with rare classes are repeated."""

from collections.abc import Sequence

import numpy as np


def balanced(present: Sequence[np.ndarray], classes: int, seed: int) -> np.ndarray:
    """Return sample indices in which each class is equally frequent, 1 / classes of the total.

    `present` are the classes of each sample. The samples of a class are repeated equally often, up to one, which the
    seed decides (the published method draws independently). Samples without any class are left out.
    """
    members_of = [np.array([i for i, labels in enumerate(present) if c in labels], np.int64) for c in range(classes)]
    share = sum(map(len, members_of)) / classes
    rng, chosen = np.random.default_rng((seed, len(present))), [np.zeros(0, np.int64)]
    for members in members_of:
        if len(members):
            times, more = divmod(round(share), len(members))
            chosen += [np.tile(members, times), np.sort(rng.permutation(members)[:more])]
    return np.concatenate(chosen)
