"""Samples that cannot be read: others replace them in training, and they are left out of other splits."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from ndformer.framework.errors import DataError

MAX_BAD_SAMPLES = 100  # in a row


class Samples(Protocol):
    """The part of a Dataset that is used here."""

    skip_bad: bool
    split: str
    usable: np.ndarray | None

    def __len__(self) -> int: ...
    def candidates(self, i: int) -> Iterator[int]: ...
    def name(self, i: int) -> str: ...


def read_or_replace(data: Samples, i: int, read: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """Return read(i) or, with `skip_bad`, that of the first of `data.candidates(i)` that can be read.

    `bad` of the sample are the names and errors of the others. Samples of val and test are not replaced, so that only
    `bad` is returned.
    """
    if not data.skip_bad:
        return read(i)
    is_train, bad = data.split == "train", list[tuple[str, str]]()
    for k in itertools.islice(data.candidates(i), MAX_BAD_SAMPLES if is_train else 1):
        try:
            return with_bad(read(k), bad)
        except DataError as error:
            bad.append((data.name(k), str(error)))
    if is_train:
        raise DataError(f"{len(bad)} samples in a row cannot be read. The first error: {bad[0][1]}")
    return dict(bad=bad)


def with_bad(sample: dict[str, Any], bad: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the sample with more entries of `bad`, which it lacks if there are none."""
    return sample | dict(bad=[*bad, *sample.get("bad", ())]) if bad else sample


def partners(
    data: Samples, rng: np.random.Generator, count: int, read: Callable[[int], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return `count` random samples to blend into another one, and `bad` of the samples that they replace."""
    numbers = rng.integers(len(data if data.usable is None else data.usable), size=count)
    numbers = numbers if data.usable is None else data.usable[numbers]
    samples = [read_or_replace(data, i, read) for i in numbers.tolist()]
    return samples, [entry for sample in samples for entry in sample.pop("bad", ())]
