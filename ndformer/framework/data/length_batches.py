"""A batch sampler that draws a sequence length for each batch, to which its samples are resized (NaViT)."""

from collections.abc import Iterator, Sequence

import numpy as np

from ndformer.framework.data.batches import Batches


class LengthBatches(Batches):
    """A batch sampler for training whose batches have samples of at most one of `lengths` tokens each.

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
        self.token_counts, self.sizes = (
            np.array(token_counts),
            np.array(sizes),
        )  # of each batch: tokens a sample, samples
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
                share = np.array_split(batch, self.processes)[self.rank]
                yield [(number, int(i), self.cells[int(self.token_counts[k])]) for i in share]
