"""Several datasets trained on in turn: each batch is of one of them, so that each modality keeps its own shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from ndformer.framework.data import Dataset, Sample
from ndformer.framework.registry import DATASETS


@DATASETS.register_module()
class Mixture(Dataset):
    """The samples of `parts`, dict(image=dict(type='CIFAR10', ...), points=dict(...)), one after the other.

    An epoch has as many batches as all parts together; `weights` say how they are shared among them, by default so that
    each sample comes once. A part with more batches than samples is gone through again, in another order.
    """

    def __init__(
        self,
        parts: dict[str, dict[str, Any]],
        weights: dict[str, float] | None = None,
        split: str = "train",
        seed: int = 0,
    ) -> None:
        self.parts: dict[str, Dataset] = {
            name: DATASETS.create({"split": split} | part, seed=seed) for name, part in parts.items()
        }
        if weights is not None and set(weights) != set(parts):
            raise ValueError(f"weights are for {', '.join(parts)}, got {', '.join(weights)}")
        self.weights = None if weights is None else [weights[name] for name in parts]
        self.starts = np.cumsum([0, *(len(part) for part in self.parts.values())])
        self.classes = [f"{name}: {label}" for name, part in self.parts.items() for label in part.classes]
        self.records, self.labels = range(int(self.starts[-1])), np.concatenate([p.labels for p in self.parts.values()])

    def __getitem__(self, key: int | tuple[int, int]) -> Sample:
        epoch, i = key if isinstance(key, tuple) else (0, key)
        k = int(np.searchsorted(self.starts, i, side="right")) - 1
        return list(self.parts.values())[k][epoch, i - int(self.starts[k])]


class TurnSampler(Sampler[list[tuple[int, int]]]):
    """Batches of (epoch, number) from a Mixture, each of one part, in an order that (seed, epoch) decides."""

    sampler = None  # mmengine asks batch samplers for theirs

    def __init__(self, data: Mixture, batch_size: int, shuffle: bool, seed: int = 0) -> None:
        self.data, self.batch_size, self.shuffle, self.seed, self.epoch = data, batch_size, shuffle, seed, 0
        self.sizes = np.diff(data.starts)
        whole = -(-self.sizes // batch_size)
        share = whole if data.weights is None or not shuffle else np.asarray(data.weights, float)
        self.counts = np.maximum(1, (whole.sum() * share / share.sum()).round().astype(int))  # batches of each part

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return int(self.counts.sum())

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        turns = np.repeat(np.arange(len(self.counts)), self.counts)
        if self.shuffle:
            turns = np.random.default_rng((self.seed, self.epoch)).permutation(turns)
        batches = [iter(self._batches(k)) for k in range(len(self.counts))]
        for k in turns:
            yield [(self.epoch, int(i)) for i in next(batches[k])]

    def _batches(self, k: int) -> list[np.ndarray]:
        """Numbers of one part, batch by batch; all but evaluation's last are full."""
        size, start, count = int(self.sizes[k]), int(self.data.starts[k]), int(self.counts[k])
        if not self.shuffle:
            return np.split(np.arange(start, start + size), np.arange(self.batch_size, size, self.batch_size))
        passes = -(-count * self.batch_size // size)
        rng = np.random.default_rng((self.seed, self.epoch, k))
        order = np.concatenate([rng.permutation(size) for _ in range(passes)])[: count * self.batch_size]
        return list((start + order).reshape(count, self.batch_size))
