"""Read a whole dataset once, in parallel, and say what is wrong with it before a week is spent."""

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
from ndformer.framework.data.workers import begin_worker, watch, workers_explained
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.engine.training.progress import clock
from ndformer.framework.errors import DataError, no_class

MOST = 10_000  # bad samples of a split


class _Checked(torch.utils.data.Dataset[Any]):
    """What is wrong with each sample of a dataset, "" for nothing."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.worker_status = data, data.worker_status

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[int, str]:
        with self.data.watched(i):
            try:
                return i, fault(self.data, self.data.sample(0, i))
            except DataError as error:
                return i, str(error)
            except Exception as error:
                return i, f"{self.data.name(i)}: {type(error).__name__}: {error}"


def fault(data: Dataset, sample: dict[str, Any]) -> str:
    """What a reader let pass: numbers that are not finite, labels of no class."""
    name = data.name(sample.get("index", 0))
    for kind, value in sample.get("inputs", {}).items():
        if isinstance(value, Tensor) and value.is_floating_point() and not value.isfinite().all():
            return f"{name}: its {kind} holds numbers that are not finite"
    label = sample.get("data_sample", {}).get("label")
    if isinstance(label, int) and not 0 <= label < len(data.classes):
        return str(no_class(name, label, len(data.classes), "correct what the dataset gives"))
    return ""


def check_split(cfg: Config, split: str, workers: int) -> tuple[int, list[str]]:
    """(samples read, what is wrong, sample by sample). After MOST bad ones the others are not read."""
    data = build_dataset(cfg, split)
    watch(data, workers)
    found: Any = DataLoader(
        _Checked(data),
        batch_size=None,
        num_workers=workers,
        worker_init_fn=begin_worker,
        prefetch_factor=8 if workers else None,
    )
    count, wrong = 0, list[str]()
    with workers_explained([data]):
        for _, what in _shown(found, split, len(data)):
            count += 1
            wrong += [what] if what else []
            if len(wrong) == MOST:
                break
    return count, wrong


def _shown(found: Any, split: str, count: int) -> Iterator[tuple[int, str]]:
    """The same, with a bar on a terminal."""
    begin, shown, wrong = time.perf_counter(), 0.0, 0
    for done, one in enumerate(found, 1):
        yield one
        wrong += bool(one[1])
        now = time.perf_counter()
        if sys.stderr.isatty() and (now - shown > 0.2 or done == count):
            shown = now
            bar = ("=" * (24 * done // count)).ljust(24)
            left = clock((now - begin) / done * (count - done))
            print(
                f"\r[{bar}] {split} {done}/{count}  bad {wrong}  left {left}\033[K",
                end="",
                file=foreign.rewritable(sys.stderr),
            )
    if sys.stderr.isatty():
        print(file=sys.stderr)
