"""A check of a dataset: read every sample once, in parallel, and list the faulty ones."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor
from torch.utils.data import DataLoader

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.workers import begin_worker, is_worker_death, watch, workers_explained
from ndformer.framework.engine.config.schema import Loading
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.engine.training.progress import clock
from ndformer.framework.engine.training.token_lengths import token_lengths
from ndformer.framework.errors import DataError, no_class

MAX_BAD = 10_000  # the check of a split stops after this many faulty samples


class _Checked(torch.utils.data.Dataset[Any]):
    """A dataset of error messages, one for each sample of another dataset; "" if the sample has no fault."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.worker_status = data, data.worker_status  # the worker_status is read by begin_worker

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[int, str]:
        with self.data.watched(i):
            try:
                return i, fault(self.data, i)
            except DataError as error:
                return i, str(error)
            except Exception as error:
                if is_worker_death(error):  # of another loader of this process
                    raise
                return i, f"{self.data.name(i)}: {type(error).__name__}: {error}"


def fault(data: Dataset, i: int) -> str:
    """Read a sample; return its fault, such as values that are not finite or an unknown label; else ""."""
    sample, name = data.sample(0, i), data.name(i)
    for kind, value in sample.get("inputs", {}).items():
        if isinstance(value, Tensor) and value.is_floating_point() and not value.isfinite().all():
            return f"{name}: its {kind} contains values that are not finite"
    label = sample.get("data_sample", {}).get("label")
    if isinstance(label, int) and not 0 <= label < len(data.classes):
        return str(no_class(name, label, len(data.classes), "correct the dataset"))
    return ""


def check_split(cfg: Config, split: str, workers: int) -> tuple[int, list[str]]:
    """Read all samples of a split; return the number read and the errors (at most MAX_BAD)."""
    data = build_dataset(cfg, split)
    data.skip_bad = True  # samples that are blended into others are checked by themselves
    watch(data, workers)
    results: Any = DataLoader(
        _Checked(data),
        batch_size=None,
        num_workers=workers,
        worker_init_fn=begin_worker,
        prefetch_factor=8 if workers else None,
    )
    too_long, count, wrong = _too_long(cfg, split, data), 0, list[str]()
    with workers_explained([data]):
        for i, error in _with_progress(results, split, len(data)):
            count += 1
            error = error or too_long.get(data.name(i), "")
            wrong += [error] if error else []
            if len(wrong) == MAX_BAD:
                break
    return count, wrong


def _too_long(cfg: Config, split: str, data: Dataset) -> dict[str, str]:
    """Return the errors of samples that have more tokens than a batch of training, by name."""
    options = Loading(**cfg[f"{split}_dataloader"])
    if split != "train" or options.batch_tokens is None or options.lengths is not None:
        return {}
    return token_lengths(cfg, data, options.batch_tokens)[1]


def _with_progress(results: Any, split: str, count: int) -> Iterator[tuple[int, str]]:
    """Yield the results, and show a progress bar on a terminal."""
    begin, updated, wrong = time.perf_counter(), 0.0, 0
    for done, result in enumerate(results, 1):
        yield result
        wrong += bool(result[1])
        now = time.perf_counter()
        if sys.stderr.isatty() and (now - updated > 0.2 or done == count):
            updated = now
            bar = ("=" * (24 * done // count)).ljust(24)
            left = clock((now - begin) / done * (count - done))
            print(
                f"\r[{bar}] {split} {done}/{count}  bad {wrong}  left {left}\033[K",
                end="",
                file=foreign.rewritable(sys.stderr),
            )
    if sys.stderr.isatty():
        print(file=sys.stderr)
