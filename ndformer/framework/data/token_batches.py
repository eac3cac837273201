"""Batch samplers with a limited number of tokens in a batch: of samples of different lengths, or of drawn lengths."""

from collections.abc import Iterator, Sequence

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


class LengthBatches(Batches):
    """A batch sampler for training whose batches have samples of at most one of `lengths` tokens each, as in NaViT.

    A batch of samples of length l has `tokens` // l of them per process, so a process never gets more than `tokens`.
    The lengths of an epoch's batches are drawn once, from `seed`; their order, and the samples, from (seed, epoch). So
    the number of batches never changes. Keys are (epoch, index, cells): `cells` has for each of `lengths` the size to
    which a transform shrinks the sample, so that all its tokens fit.
    """

    def __init__(
        self,
        length: int,
        lengths: Sequence[int],
        tokens: int,
        cells: Sequence[int],
        seed: int = 0,
        rank: int = 0,
        processes: int = 1,
        loops: int = 1,
    ) -> None:
        """`length` is the number of samples, `tokens` the limit of a batch per process."""
        self.cells = dict(zip(lengths, cells))
        rng, token_counts, sizes, end = np.random.default_rng(seed), [], [], 0
        while end + processes <= length:
            token_counts.append(int(rng.choice(lengths)))
            sizes.append(min(processes * (tokens // token_counts[-1]), length - end))
            end += sizes[-1]
        self.token_counts, self.sizes = np.array(token_counts), np.array(sizes)  # tokens per sample, samples per batch
        super().__init__(length, end // len(sizes), True, seed, rank, processes, loops)

    def __len__(self) -> int:
        return len(self.sizes) * self.loops

    @property
    def dropped(self) -> int:
        return (self.length - int(self.sizes.sum())) * self.loops

    def __iter__(self) -> Iterator[list[tuple[int, int, int]]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        skip, self.skip = self.skip, 0
        for n in range(self.loops):
            number = self.epoch * self.loops + n
            rng = np.random.default_rng((self.seed, number))
            samples = self._permutation(rng)
            # the last batch may be smaller than its length allows, so it stays the last
            order = np.append(rng.permutation(len(self.sizes) - 1), len(self.sizes) - 1).astype(int)
            batches = np.split(samples, self.sizes[order].cumsum())
            for k, batch in list(zip(order, batches))[max(0, skip - n * len(self.sizes)) :]:
                yield [(number, int(i), self.cells[int(self.token_counts[k])]) for i in self.share(batch)]
