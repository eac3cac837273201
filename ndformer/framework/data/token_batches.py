"""A batch sampler for samples of different lengths, whose batches have a limited number of tokens."""

from collections.abc import Iterator

import numpy as np

from ndformer.framework.data.batches import Batches

STEPS = 4  # classes of length for each doubling: samples of a class are at most 19 % shorter than its length
EXACT = 32  # up to here each length is a class, since rows without padding need no mask: molecules, words


class TokenBatches(Batches):
    """A batch sampler for training with about `tokens` tokens per process in each batch.

    Lengths above EXACT are rounded up to classes, and a batch has samples of similar length. So random samples of a
    class change places in each epoch, but the number of batches never changes, and all processes compute the same
    schedule. A process gets at most `tokens` tokens and one sample more. Less than one sample per process is dropped at
    the end. Where no sample is longer than `tokens`, other numbers of processes with the same total have the same
    batches.
    """

    def __init__(
        self, lengths: np.ndarray, tokens: int, seed: int = 0, rank: int = 0, processes: int = 1, loops: int = 1
    ) -> None:
        """`lengths` (N,) are the numbers of tokens of the samples; negative ones are left out."""
        self.usable = np.flatnonzero(lengths >= 0)
        total = len(lengths)
        lengths = lengths[self.usable]
        rounded = 2.0 ** (np.ceil(STEPS * np.log2(np.maximum(1, lengths))) / STEPS)
        self.classes = np.where(lengths <= EXACT, np.maximum(1, lengths), rounded)
        ordered = np.sort(self.classes)[::-1]
        starts, start = [], 0
        while start < len(lengths):
            starts.append(start)
            start += max(processes, int(tokens * processes / ordered[start]))
        self.full = len(starts) - (start > len(lengths))
        if len(lengths) - starts[-1] < processes:
            start = starts.pop()
        self.starts, self.end = starts, min(len(lengths), start)
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
            batches = np.split(self.usable[samples[: self.end]], self.starts[1:])
            order = (*rng.permutation(self.full), *range(self.full, len(batches)))  # an incomplete batch comes last
            yield from (batches[k] + n * self.length for k in order)


def substitutes(lengths: np.ndarray) -> np.ndarray:
    """Return for each sample another one (N,), the next that is not longer, which can replace it in its batch.

    Only the shortest sample gets a longer one, the second shortest. Negative lengths are of samples in no batch.
    """
    order = np.argsort(-lengths, kind="stable")
    order = order[: np.count_nonzero(lengths >= 0)]
    following = np.arange(len(lengths))
    following[order] = np.append(order[1:], order[-2:-1] if len(order) > 1 else order)
    return following
