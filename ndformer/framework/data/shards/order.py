"""The order of samples in shards: shards are shuffled, then samples within windows of shards."""

import numpy as np

WINDOW = 16  # shards that are open at the same time; samples mix within them


def windowed(rng: np.random.Generator, shards: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Return a permutation of samples in which each `window` of shuffled shards comes before the next one.

    `shards` (N,) are the shards of the samples. Disks then read a few files forward instead of all of them at random.
    """
    names, shard = np.unique(shards, return_inverse=True)
    place = rng.permutation(len(names))[shard] // window
    return np.lexsort((rng.random(len(shards)), place))
