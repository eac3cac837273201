"""Numbers of tokens of samples before they are read, for batches of a limited number of tokens."""

import bisect
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, cast, runtime_checkable

import numpy as np
import torch
from mmengine.config import Config

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODALITIES

THREADS = 16  # that read headers; disks in a network answer slowly
CHUNK = 4096  # samples that are submitted to the threads at once


@runtime_checkable
class Tiling(Protocol):
    """A transform whose output sides are multiples of a number of pixels."""

    multiple_of: int


def token_lengths(cfg: Config, data: Dataset, limit: int) -> tuple[np.ndarray, dict[str, str]]:
    """Return the number of tokens of each training sample (N,), and the errors of unusable ones by name.

    A sample is unusable, with length -1, if its file cannot be read or has more than `limit` tokens. The first one
    raises its error unless the dataset has `skip_bad`.
    """
    stored = None if _knows_sizes(data) else data.lengths()  # counts of shards may be of other transforms
    counts = _measure(cfg, data) if stored is None else stored.tolist()
    lengths, bad = np.full(len(data), -1, np.int64), {}
    for i, count in enumerate(counts):
        error = count
        if count == -1:
            error = DataError(f"{data.name(i)} cannot be read. ndformer check_data says why")
        if isinstance(error, int):
            if error <= limit:
                lengths[i] = error
                continue
            error = DataError(
                f"{data.name(i)} has {count} tokens, and a batch at most batch_tokens={limit}. Raise "
                "train_dataloader.batch_tokens, make the sample smaller or remove it"
            )
        if not data.skip_bad:
            without = "--cfg-options train_dataloader.skip_bad=True leaves such samples out"
            raise DataError(str(error), f"{error.option}; {without}" if error.option else without) from error
        bad[data.name(i)] = str(error)
    return lengths, bad


def _measure(cfg: Config, data: Dataset) -> Iterator[int | DataError]:
    """Yield the number of tokens of each sample, computed from its size, or its error."""
    adapter = _adapter(cfg, data)

    def count(i: int) -> int | DataError | None:
        try:
            size = data.input_size(i)
            return None if size is None else adapter.count_tokens(size)
        except DataError as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(data), CHUNK):
            for counted in pool.map(count, range(start, min(start + CHUNK, len(data)))):
                if counted is None:
                    raise _unknown(data)
                yield counted


def cells_by_length(cfg: Config, data: Dataset, lengths: Sequence[int]) -> tuple[int, list[int]]:
    """Return the tokens of a sample of one cell, and the most cells of a sample that fit into each length.

    A cell is a square of `multiple_of` pixels of the first transform. Raise if that transform cannot shrink samples.
    """
    adapter = _adapter(cfg, data)
    first = next(iter(data.transforms), None)
    if not isinstance(first, Tiling):
        raise DataError(
            f"train_dataloader.lengths: expected KeepAspect first in the transforms, which shrinks images to a length, "
            f"got {type(first).__name__}. Leave lengths out"
        )
    side = first.multiple_of

    def tokens(cells: int) -> int:
        return adapter.count_tokens((cells * side, side)) or 0

    upper = 1
    while tokens(upper) <= max(lengths, default=0):
        upper *= 2
    return tokens(1), [bisect.bisect_right(range(1, upper), length, key=tokens) for length in lengths]


def _knows_sizes(data: Dataset) -> bool:
    try:
        return data.input_size(0) is not None
    except DataError:  # of a damaged file, or of one whose size the transforms refuse
        return True


def _adapter(cfg: Config, data: Dataset) -> Adapter:
    """Return the adapter of the data, without weights."""
    modalities = list(cfg.model.modalities.values())
    if not _knows_sizes(data):
        raise _unknown(data)
    if len(modalities) > 1:
        raise DataError(
            "train_dataloader.batch_tokens: expected a model of one modality, because the sizes of images are those of "
            f"one input, got {', '.join(cfg.model.modalities)}. Give {type(data).__name__} a lengths(), or remove "
            "batch_tokens"
        )
    with torch.device("meta"):  # draws no random numbers
        return cast(Adapter, MODALITIES.create(dict(modalities[0]), dim=cfg.model.backbone.dim))


def _unknown(data: Dataset) -> DataError:
    steps = ", ".join(type(step).__name__ for step in data.transforms)
    return DataError(
        f"train_dataloader.batch_tokens: expected a dataset that knows the lengths of its samples, got "
        f"{type(data).__name__} with the transforms {steps or 'none'}. For images: KeepAspect first, and none after it "
        "that changes the size. For other data: pack it with this config and ndformer pack_shards, or give its class "
        "a lengths()"
    )
