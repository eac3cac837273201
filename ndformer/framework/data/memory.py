"""Decoded samples kept in memory (a cache), so that after the first epoch nothing is read or decoded again."""

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

LOOKS = 8  # samples, spread over the set, that say how large all of them are
Read = Callable[[int], dict[str, Any]]


class Memory:
    """Samples by their numbers, each as the bytes of a pickle: what a transform does to one reaches no later one, and
    their lengths are the memory that they take. (Arrays that share memory within a sample do so no longer.)

    `limit` is for all workers of a loader together; each keeps what it meets.
    """

    def __init__(self, limit: str) -> None:
        self.limit = foreign.size_from(limit)
        self.kept: dict[int, bytes] = {}
        self.size, self.full = 0, False

    def sample(self, i: int, read: Read) -> dict[str, Any]:
        if i in self.kept:
            return pickle.loads(self.kept[i])
        sample = read(i)
        if not self.full:
            self._keep(i, packed(sample))
        return sample

    def _keep(self, i: int, content: bytes) -> None:
        worker = get_worker_info()
        if self.size + len(content) > self.limit / (1 if worker is None else worker.num_workers):
            self.full = True
            warnings.warn(
                f"cache='memory' is full with {len(self.kept)} samples, which are larger than those looked at before: "
                "the others are read each time",
                stacklevel=2,
            )
            return
        self.kept[i] = content
        self.size += len(content)

    def check(self, count: int, read: Read, processes: int, of: str) -> None:
        """A sentence, before anything is learnt, where `count` samples in each of so many processes are too large for
        the limit, by some of them, or cannot be kept."""
        sizes = []
        for i in sorted({round(k * (count - 1) / (LOOKS - 1)) for k in range(LOOKS)}):
            try:
                sizes.append(len(packed(read(i))))
            except DataError:  # a bad sample, for which the loader has its ways
                continue
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                raise DataError(
                    f"cache='memory' keeps plain data, and samples of {of} hold what cannot be kept ({error}): leave "
                    "cache out"
                ) from None
        total = processes * count * sum(sizes) / max(1, len(sizes))
        if total > self.limit:
            each = f" in each of {processes} workers" if processes > 1 else ""
            raise DataError(
                f"cache='memory' would keep about {total / 2**20:,.0f} MiB, {count} samples of {of}{each}, and "
                f"cache_limit allows {self.limit / 2**20:,.0f}: raise it, take fewer workers, or leave cache out"
            )


class _Pickler(pickle.Pickler):
    """One that keeps how arrays lie in memory: sums over others of the same values have other last digits."""

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
