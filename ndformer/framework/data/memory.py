"""A memory cache of decoded samples, so that later epochs neither read nor decode files."""

import ctypes
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from torch.utils.data import get_worker_info

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

PROBE_COUNT = 8  # samples, spread over the dataset, from which the size of all is estimated
Read = Callable[[int], dict[str, Any]]


class Decoding:
    """A transform that decodes what read() left on disk, for example the frames of a video.

    If it is `fixed` (deterministic) and comes first, its output is cached together with read().
    """

    fixed: bool

    def __call__(self, sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        raise NotImplementedError


class Memory:
    """A cache of samples by index, each stored as pickle bytes.

    A transform that changes a sample in place does not change the cached one. Arrays that share memory within a sample
    no longer do. `limit` is for all workers of a loader together; each caches the samples it reads.
    """

    def __init__(self, limit: str) -> None:
        self.limit = foreign.size_from(limit)
        self.cached: dict[int, bytes] = {}
        self.size, self.full = 0, False

    def sample(self, i: int, read: Read) -> dict[str, Any]:
        if i in self.cached:
            return pickle.loads(self.cached[i])
        sample = read(i)
        if not self.full:
            self._store(i, packed(sample))
        return sample

    def _store(self, i: int, content: bytes) -> None:
        worker = get_worker_info()
        if self.size + len(content) > self.limit / (1 if worker is None else worker.num_workers):
            self.full = True
            warnings.warn(
                f"cache='memory' is full with {len(self.cached)} samples, which are larger than estimated. "
                "Other samples are read in every epoch.",
                stacklevel=2,
            )
            return
        self.cached[i] = content
        self.size += len(content)

    def check(self, count: int, read: Read, processes: int, dataset: str) -> None:
        """Raise DataError if `count` samples in each process would exceed the limit or cannot be pickled."""
        sizes = []
        for i in sorted({round(k * (count - 1) / (PROBE_COUNT - 1)) for k in range(PROBE_COUNT)}):
            try:
                sizes.append(len(packed(read(i))))
            except DataError:  # a bad sample, which the loader reports or skips
                continue
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                raise DataError(
                    f"cache='memory' expects samples that can be pickled, got samples of {dataset} that cannot "
                    f"({error}). Remove cache."
                ) from None
        total = processes * count * sum(sizes) / max(1, len(sizes))
        if total > self.limit:
            each = f" in each of {processes} workers" if processes > 1 else ""
            raise DataError(
                f"cache='memory' would need about {total / 2**20:,.0f} MiB, {count} samples of {dataset}{each}, but "
                f"cache_limit is {self.limit / 2**20:,.0f} MiB. Raise it, use fewer workers, or remove cache."
            )


class _Pickler(pickle.Pickler):
    """A pickler that preserves the strides of arrays: sums over another layout differ in their last digits."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, np.ndarray) or obj.flags.forc or obj.dtype.hasobject:
            return NotImplemented
        low, high = np.lib.array_utils.byte_bounds(obj)
        around = bytearray(ctypes.string_at(low, high - low))
        return np.ndarray, (obj.shape, obj.dtype, around, obj.ctypes.data - low, obj.strides)


def packed(sample: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(sample)
    return file.getvalue()
