"""Which samples make a batch, in which order, and how they become one (the sampler and the collate function)."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.data.dataset import Sample


class Batches(torch.utils.data.Sampler[list[tuple[int, int]]]):
    """Batches of (epoch, number) with every sample once per epoch, in an order that (seed, epoch) decides.

    With `loops`, an epoch is so many passes over the samples, and what is random about a sample differs between them.
    Each of several processes has its rows of every batch. Training leaves out the last batch where it is not full.
    """

    sampler = None  # mmengine asks batch samplers for theirs

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
        """`batch_size` is that of all processes together."""
        self.loops = loops
        self.length, self.batch_size, self.shuffle, self.seed = length, batch_size, shuffle, seed
        self.rank, self.processes = rank, processes
        self.epoch = self.skip = 0  # the next pass leaves out so many batches: they were trained on before

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        total = self.length * self.loops
        return total // self.batch_size if self.shuffle else -(-total // self.batch_size)

    def before_sharing(self) -> Iterator[np.ndarray]:
        """Numbers of the batches of all processes together, each pass counting on from the one before."""
        passes = [np.arange(self.length)] * self.loops
        if self.shuffle:
            first = self.epoch * self.loops
            passes = [np.random.default_rng((self.seed, first + n)).permutation(self.length) for n in range(self.loops)]
        order = np.concatenate([numbers + n * self.length for n, numbers in enumerate(passes)])
        return (order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(len(self)))

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        skip, self.skip = self.skip, 0
        for numbers in itertools.islice(self.before_sharing(), skip, None):
            own = np.array_split(numbers, self.processes)[self.rank]
            yield [(self.epoch * self.loops + int(i) // self.length, int(i) % self.length) for i in own]


def collate(samples: Sequence[Sample]) -> dict[str, Any]:
    """Batches: `inputs` by modality, stacked where shapes agree and as a list where not, with None for a sample that
    lacks it; `data_samples` as a list; `bad` where samples could not be read."""
    bad = [one for s in samples for one in s.get("bad", ())]
    samples = [s for s in samples if "inputs" in s]
    names = dict.fromkeys(name for s in samples for name in s["inputs"])
    inputs = {name: _stack([s["inputs"].get(name) for s in samples]) for name in names}
    return dict(inputs=inputs, data_samples=[s["data_sample"] for s in samples]) | (dict(bad=bad) if bad else {})


def _stack(values: list[Any]) -> Any:
    if isinstance(values[0], Tensor) and all(v is not None and v.shape == values[0].shape for v in values):
        return torch.stack(values)
    return values
