"""The batch sampler and the collate function."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.data.dataset import Sample

WINDOW = 16  # shards that are open at the same time; samples mix within them


class Batches(torch.utils.data.Sampler[list[tuple[int, int]]]):
    """A batch sampler of (epoch, index) pairs with every sample once per epoch, in an order set by (seed, epoch).

    With `loops`, an epoch has that many passes over the samples, each with different random transforms. With several
    processes, each gets its rows of every batch. If `shuffle` is set, an incomplete last batch is dropped.
    """

    sampler = None  # mmengine reads this attribute of batch samplers
    shards: np.ndarray | None = None  # (length,) the shard of each sample, for an order in which disks read forward

    def __init__(
        self,
        length: int,
        batch_size: int,
        shuffle: bool,
        seed: int = 0,
        rank: int = 0,
        processes: int = 1,
        loops: int = 1,
    ) -> None:
        """`batch_size` is the total over all processes."""
        self.loops = loops
        self.length, self.batch_size, self.shuffle, self.seed = length, batch_size, shuffle, seed
        self.rank, self.processes = rank, processes
        self.epoch = self.skip = 0  # the next epoch skips so many batches, which were trained on before a resume

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        total = self.length * self.loops
        return total // self.batch_size if self.shuffle else -(-total // self.batch_size)

    @property
    def dropped(self) -> int:
        """The number of samples of an epoch that are in no batch."""
        return max(0, self.length * self.loops - len(self) * self.batch_size)

    def before_sharing(self) -> Iterator[np.ndarray]:
        """Yield the indices of each batch before it is split over processes; pass n adds n * length to them."""
        passes = [np.arange(self.length)] * self.loops
        if self.shuffle:
            first = self.epoch * self.loops
            passes = [self._permutation(np.random.default_rng((self.seed, first + n))) for n in range(self.loops)]
        order = np.concatenate([numbers + n * self.length for n, numbers in enumerate(passes)])
        return (order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(len(self)))

    def _permutation(self, rng: np.random.Generator) -> np.ndarray:
        return rng.permutation(self.length) if self.shards is None else windowed(rng, self.shards)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        skip, self.skip = self.skip, 0
        for numbers in itertools.islice(self.before_sharing(), skip, None):
            share = self.share(numbers)
            yield [(self.epoch * self.loops + int(i) // self.length, int(i) % self.length) for i in share]

    def share(self, batch: np.ndarray) -> np.ndarray:
        """Return the samples of this process."""
        return np.array_split(batch, self.processes)[self.rank]


def windowed(rng: np.random.Generator, shards: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Return a permutation of samples in which each `window` of shuffled shards comes before the next one.

    `shards` (N,) are the shards of the samples. Disks then read a few files forward instead of all of them at random.
    """
    names, shard = np.unique(shards, return_inverse=True)
    place = rng.permutation(len(names))[shard] // window
    return np.lexsort((rng.random(len(shards)), place))


def collate(samples: Sequence[Sample]) -> dict[str, Any]:
    """Collate samples into dict(inputs=..., data_samples=[...]), with `bad` if some could not be read.

    `inputs` has a stacked tensor per modality if shapes agree, otherwise a list with None for samples that lack it.
    """
    bad = [entry for s in samples for entry in s.get("bad", ())]
    samples = [s for s in samples if "inputs" in s]
    names = dict.fromkeys(name for s in samples for name in s["inputs"])
    inputs = {name: _stack([s["inputs"].get(name) for s in samples]) for name in names}
    return dict(inputs=inputs, data_samples=[s["data_sample"] for s in samples]) | (dict(bad=bad) if bad else {})


def _stack(values: list[Any]) -> Any:
    if isinstance(values[0], Tensor) and all(v is not None and v.shape == values[0].shape for v in values):
        return torch.stack(values)
    return values
