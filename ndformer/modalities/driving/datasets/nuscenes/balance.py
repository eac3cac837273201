"""Class-balanced resampling (CBGS, Zhu 2019): samples with rare classes several times, so that all classes are seen."""

from collections.abc import Sequence

import numpy as np


def balanced(present: Sequence[np.ndarray], classes: int, seed: int) -> np.ndarray:
    """Numbers of samples, those with each class equally often: a tenth of all that the classes together have, of ten.

    `present` are the classes of each sample. Of a class, each sample comes as often as the others or once more, which
    the seed decides; published are independent draws. Samples without any class do not come.
    """
    own = [np.array([i for i, there in enumerate(present) if c in there], np.int64) for c in range(classes)]
    share = sum(map(len, own)) / classes
    rng, chosen = np.random.default_rng((seed, len(present))), [np.zeros(0, np.int64)]
    for members in own:
        if len(members):
            times, more = divmod(round(share), len(members))
            chosen += [np.tile(members, times), np.sort(rng.permutation(members)[:more])]
    return np.concatenate(chosen)
