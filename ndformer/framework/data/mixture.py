"""Datasets of several modalities: batches from different datasets in turn, and samples with several modalities."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ndformer.framework.data.batches import Batches
from ndformer.framework.data.dataset import Dataset, Sample, create, rooted
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, TRANSFORMS
from ndformer.framework.registry.ranges import Filled, Positive, Seed, Share, Text


@DATASETS.register_module()
class Mixture(Dataset):
    """The concatenation of datasets `parts`, such as dict(image=dict(type='CIFAR10', ...), points=dict(...)).

    An epoch has as many batches as all parts together. `weights` are the shares of the parts; by default each sample
    comes once. A part with more batches than samples is repeated in another order. `only` selects some of the parts.
    `data_root` is for parts without one.
    """

    def __init__(
        self,
        parts: dict[str, dict[str, Any]],
        weights: dict[str, Positive] | None = None,
        only: Annotated[list[str], Filled()] | None = None,
        split: str = "train",
        seed: Seed = 0,
        data_root: Text | Path | None = None,
        model_classes: Sequence[str] = (),
    ) -> None:
        if weights is not None and set(weights) != set(parts):
            raise ValueError(f"weights expects a weight for each of {', '.join(parts)}, got {', '.join(weights)}")
        if weights is not None and min(weights.values()) <= 0:
            raise ValueError(f"weights expects numbers above 0, got {weights}. Use only=[...] to leave parts out.")
        if only is not None:
            missing = next((name for name in only if name not in parts), None)
            if missing is not None or not only:
                raise ValueError(f"only expects names among {', '.join(parts)}, got {missing or 'none'}")
            parts = {name: part for name, part in parts.items() if name in only}
        self.parts: dict[str, Dataset] = {
            name: create({"split": split} | rooted(part, data_root), seed, _part_classes(name, model_classes))
            for name, part in parts.items()
        }
        self.split = split
        self.test_is_val = any(part.test_is_val for part in self.parts.values())
        self.val_is_test = any(part.val_is_test for part in self.parts.values())
        self.weights = None if weights is None else [weights[name] for name in parts]
        self.starts = np.cumsum([0, *(len(part) for part in self.parts.values())])
        self.classes = [f"{name}: {label}" for name, part in self.parts.items() for label in part.classes]
        self.records, self.labels = range(int(self.starts[-1])), np.concatenate([p.labels for p in self.parts.values()])

    def absent(self) -> list[str]:
        return [f"{name}: {label}" for name, part in self.parts.items() for label in part.absent()]

    def sample(self, epoch: int, i: int) -> Sample:
        part, j = self.locate(i)
        part.skip_bad, part.loops = self.skip_bad, self.loops  # skip_bad: for samples that are blended into this one
        return part.sample(epoch, j)

    def check_memory(self, workers: int) -> None:
        for part in self.parts.values():
            part.check_memory(workers)

    def shuffle_labels(self) -> None:
        for part in self.parts.values():
            part.shuffle_labels()

    def candidates(self, i: int) -> Iterator[int]:
        part, j = self.locate(i)
        return (i - j + k for k in part.candidates(j))

    def name(self, i: int) -> str:
        part, j = self.locate(i)
        return part.name(j)

    def locate(self, i: int) -> tuple[Dataset, int]:
        k = int(np.searchsorted(self.starts, i, side="right")) - 1
        return list(self.parts.values())[k], i - int(self.starts[k])


def _part_classes(name: str, classes: Sequence[str]) -> list[str]:
    start = f"{name}: "
    return [label.removeprefix(start) for label in classes if label.startswith(start)]


@TRANSFORMS.register_module()
class PerModality:
    """Apply transforms to each modality of a sample, dict(image=[...], points=[...]), and pack them into one sample.

    Modalities that a sample lacks are skipped.
    """

    def __init__(self, chains: dict[str, list[dict[str, Any]]]) -> None:
        self.chains = {name: [TRANSFORMS.create(t) for t in chain] for name, chain in chains.items()}

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        packed = []
        for name, chain in self.chains.items():
            if name in sample:
                part = sample
                for transform in chain:
                    part = transform(part, rng)
                packed.append(part)
        if not packed:
            raise DataError(
                f"{sample.get('path', 'a sample')}: expected at least one of {', '.join(self.chains)}, got none. "
                "Remove the sample."
            )
        inputs = {name: value for part in packed for name, value in part["inputs"].items()}
        common = [key for key in packed[0]["data_sample"] if all(key in part["data_sample"] for part in packed)]
        return dict(inputs=inputs, data_sample={key: packed[0]["data_sample"][key] for key in common})


@TRANSFORMS.register_module()
class DropModality:
    """Drop one random modality of a packed sample, so that the model learns from each of them."""

    def __init__(self, probability: Share) -> None:
        self.probability = probability

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        names = sorted(name for name, value in sample["inputs"].items() if value is not None)
        if len(names) < 2 or rng.random() >= self.probability:
            return sample
        left_out = names[rng.integers(len(names))]
        return sample | dict(inputs={name: value for name, value in sample["inputs"].items() if name != left_out})


class TurnBatches(Batches):
    """A batch sampler for a Mixture: each batch is from one part, in an order set by (seed, epoch)."""

    def __init__(self, data: Mixture, batch_size: int, shuffle: bool, *order: int, **named: int) -> None:
        super().__init__(len(data), batch_size, shuffle, *order, **named)
        loops = self.loops
        self.data = data
        self.sizes = np.diff(data.starts)
        per_pass = -(-self.sizes // batch_size)
        share = per_pass if data.weights is None or not shuffle else np.asarray(data.weights, float)
        batches = loops * per_pass.sum() * share / share.sum()
        self.counts = np.maximum(1, batches.round().astype(int))  # batches of each part
        self.loops = int((-(-self.counts * batch_size // self.sizes)).max()) if shuffle else 1  # passes over a part

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def dropped(self) -> int:
        return 0  # the batches of a part are filled by more passes over it

    def before_sharing(self) -> Iterator[np.ndarray]:
        turns = np.repeat(np.arange(len(self.counts)), self.counts)
        if self.shuffle:
            turns = np.random.default_rng((self.seed, self.epoch)).permutation(turns)
        batches = [iter(self._batches(k)) for k in range(len(self.counts))]
        return (next(batches[k]) for k in turns)

    def _batches(self, k: int) -> list[np.ndarray]:
        """Return the batches of indices of one part; all are full except the last one in evaluation."""
        size, start, count = int(self.sizes[k]), int(self.data.starts[k]), int(self.counts[k])
        if not self.shuffle:
            return np.split(np.arange(start, start + size), np.arange(self.batch_size, size, self.batch_size))
        passes = -(-count * self.batch_size // size)
        rng = np.random.default_rng((self.seed, self.epoch, k))
        order = np.concatenate([rng.permutation(size) + n * self.length for n in range(passes)])
        order = order[: count * self.batch_size]
        return list((start + order).reshape(count, self.batch_size))
