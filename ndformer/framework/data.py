"""What a dataset is: samples on disk, read one by one, changed by transforms, collated into batches.

    record -> read() -> dict(image=..., label=...) -> transforms -> dict(inputs=..., data_sample=...) -> collate()

Randomness is a function of (seed, epoch, sample index) alone: the numbers of workers and processes change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.registry import TRANSFORMS

Sample = dict[str, Any]
Transform = Callable[[Sample, np.random.Generator], Sample]


class DataError(RuntimeError):
    """Data that is missing or wrong, told in one sentence: what, where, and what to do."""


class Dataset(torch.utils.data.Dataset[Sample]):
    """Extend it with `index` and `read`.

    A set without an official validation split holds out a stratified share of train for it. `val_is_test` validates on
    test instead, the habit of other codebases; reports say so. `per_class` keeps only so many samples of each class.
    """

    splits: tuple[str, ...] = ("train", "test")  # what is on disk
    classes: list[str]  # names, set by index()

    def __init__(
        self,
        data_root: str | Path,
        split: str = "train",
        transforms: Sequence[dict[str, Any] | Transform] = (),
        holdout: float = 0.1,
        val_is_test: bool = False,
        seed: int = 0,
        per_class: int | None = None,
    ) -> None:
        if split not in ("train", "val", "test"):
            raise ValueError(f"split is train, val or test, got '{split}'")
        self.data_root, self.split, self.seed = Path(data_root), split, seed
        self.transforms = [TRANSFORMS.create(t) if isinstance(t, dict) else t for t in transforms]
        held_out = "val" not in self.splits and not val_is_test
        source = split
        if split == "val" and "val" not in self.splits:
            source = "test" if val_is_test else "train"
        records, labels = self.index(source)
        if held_out and split != "test":
            val = stratified(labels, holdout)
            keep = val if split == "val" else np.setdiff1d(np.arange(len(labels)), val)
            records, labels = [records[i] for i in keep], labels[keep]
        if per_class is not None:
            keep = self._few(labels, per_class)
            records, labels = [records[i] for i in keep], labels[keep]
        self.records, self.labels = records, labels

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        """The records of a split on disk and their labels (N,), without reading a sample. Sets `classes`."""
        raise NotImplementedError

    def read(self, record: Any) -> Sample:
        """One sample as it is on disk: dict(image=PIL.Image, label=int, ...)."""
        raise NotImplementedError

    def _few(self, labels: np.ndarray, count: int) -> np.ndarray:
        """Sorted numbers of `count` samples of each class: the seed draws them, and fewer are always among more."""
        if count < 1:
            raise ValueError(f"per_class keeps 1 sample of each class or more, got {count}")
        chosen = []
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            if len(members) < count:
                raise DataError(
                    f"per_class asks for {count} samples of each class, but the {self.split} split under "
                    f"{self.data_root} has {len(members)} of '{self.classes[label]}': ask for fewer"
                )
            chosen.append(np.random.default_rng((self.seed, label)).permutation(members)[:count])
        return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, key: int | tuple[int, int]) -> Sample:
        """`key` is a sample's number, or (epoch, number)."""
        epoch, i = key if isinstance(key, tuple) else (0, key)
        sample = self.read(self.records[i]) | dict(index=i)
        rng = np.random.default_rng((self.seed, epoch, i))
        for transform in self.transforms:
            sample = transform(sample, rng)
        return sample


class EpochSampler(torch.utils.data.Sampler[tuple[int, int]]):
    """(epoch, number) of every sample once per epoch, in an order that (seed, epoch) decides."""

    def __init__(self, length: int, shuffle: bool, seed: int = 0) -> None:
        self.length, self.shuffle, self.seed, self.epoch = length, shuffle, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[tuple[int, int]]:
        order = np.arange(self.length)
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.length)
        return iter([(self.epoch, int(i)) for i in order])


def collate(samples: Sequence[Sample]) -> dict[str, Any]:
    """Batches: `inputs` by modality, stacked where shapes agree and as a list where not, with None for a sample that
    lacks it; `data_samples` as a list."""
    names = dict.fromkeys(name for s in samples for name in s["inputs"])
    inputs = {name: _stack([s["inputs"].get(name) for s in samples]) for name in names}
    return dict(inputs=inputs, data_samples=[s["data_sample"] for s in samples])


def _stack(values: list[Any]) -> Any:
    if isinstance(values[0], Tensor) and all(v is not None and v.shape == values[0].shape for v in values):
        return torch.stack(values)
    return values


def stratified(labels: np.ndarray, share: float) -> np.ndarray:
    """Sorted numbers of about `share` of each class, the same ones every time: every k-th sample of a class."""
    chosen = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = max(1, round(len(members) * share)) if len(members) > 1 else 0
        chosen.append(members[np.linspace(0, len(members) - 1, count).round().astype(int)] if count else members[:0])
    return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)
