"""A batch sampler for samples of different lengths, whose batches have a limited number of tokens."""

from collections.abc import Iterator

import numpy as np

from ndformer.framework.data.batches import Batches
from ndformer.framework.errors import DataError

STEPS = 4  # classes of length for each doubling: samples of a class are at most 19 % shorter than its length
EXACT = 32  # up to here each length is a class, since rows without padding need no mask: molecules, words


class TokenBatches(Batches):
    """A batch sampler for training with at most `tokens` tokens per process in each batch.

    Lengths above EXACT are rounded up to classes, and a batch has samples of similar length. So random samples of a
    class change places in each epoch, but the number of batches never changes, and all processes compute the same
    schedule. A sample longer than `tokens` is alone in its process.

    Each sample is in one batch of an epoch. Only where a process has room for a single sample in its last batch, fewer
    samples than processes may be left over: they are dropped, and each epoch draws at random which.
    """

    def __init__(
        self, lengths: np.ndarray, tokens: int, seed: int = 0, rank: int = 0, processes: int = 1, loops: int = 1
    ) -> None:
        """`lengths` (N,) are the numbers of tokens of the samples; negative ones are left out."""
        self.usable = np.flatnonzero(lengths >= 0)
        total, count = len(lengths), len(self.usable)
        if count < processes:
            raise DataError(f"expected at most {count} processes, one per usable sample, got {processes}. Start fewer")
        lengths = lengths[self.usable]
        rounded = 2.0 ** (np.ceil(STEPS * np.log2(np.maximum(1, lengths))) / STEPS)
        self.classes = np.where(lengths <= EXACT, np.maximum(1, lengths), rounded)
        ordered = np.sort(self.classes)[::-1]
        starts, start = [], 0
        while start < count:
            starts.append(start)
            start += processes * max(1, int(tokens / ordered[start]))
        self.full, self.end = len(starts) - (start > count), count
        left_over = count - starts[-1]
        if left_over < processes:
            start = starts.pop()
            if start - starts[-1] > processes:  # the last batch gets what it lacks from the one before
                starts.append(start - processes + left_over)
            else:  # a process has room for one sample, or for two short ones
                fits = ordered[start - left_over : start][::-1] + ordered[start:] <= tokens
                self.end = start + int(np.cumprod(fits).sum())
        self.starts = starts
        super().__init__(total, self.end // len(starts), True, seed, rank, processes, loops)

    def __len__(self) -> int:
        return len(self.starts) * self.loops

    @property
    def dropped(self) -> int:
        return (len(self.usable) - self.end) * self.loops

    def before_sharing(self) -> Iterator[np.ndarray]:
        for n in range(self.loops):
            rng = np.random.default_rng((self.seed, self.epoch * self.loops + n))
            samples = np.lexsort((rng.random(len(self.usable)), -self.classes))
            samples = np.delete(samples, rng.choice(len(samples), len(samples) - self.end, replace=False))
            batches = np.split(self.usable[samples], self.starts[1:])
            order = (*rng.permutation(self.full), *range(self.full, len(batches)))  # an incomplete batch comes last
            yield from (batches[k] + n * self.length for k in order)

    def share(self, batch: np.ndarray) -> np.ndarray:
        """Return the samples of this process; each second round is dealt backwards, so that long meet short ones."""
        places = np.arange(len(batch)) % (2 * self.processes)
        return batch[np.isin(places, (self.rank, 2 * self.processes - 1 - self.rank))]
