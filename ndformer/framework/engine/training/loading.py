"""Loaders: batches of a config's datasets, and what could not be read."""

import functools
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from mmengine.config import Config
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from ndformer.framework import foreign
from ndformer.framework.data.batches import Batches, collate
from ndformer.framework.data.dataset import Dataset, create, rooted
from ndformer.framework.data.mixture import Mixture, TurnBatches
from ndformer.framework.data.workers import begin_worker, watch, workers_explained
from ndformer.framework.engine.config.schema import Loading
from ndformer.framework.errors import DataError
from ndformer.framework.system import devices, host_state, processes

POLLED = 1.0  # seconds between looks at whether workers that are waited for still live


class _Batches(_MultiProcessingDataLoaderIter):
    """Torch's iterator, which also sees that a worker has died where other code caught the error that tells it.

    With a timeout, torch looks at its workers only when that has passed.
    """

    def _try_get_data(self, timeout: float = POLLED) -> Any:
        until = time.monotonic() + timeout
        while True:
            found = super()._try_get_data(max(0.0, min(POLLED, until - time.monotonic())))
            if found[0] or time.monotonic() >= until:
                return found


class Loader(DataLoader[Any]):
    """A DataLoader that collects in `bad` which samples could not be read, and why, instead of handing it on."""

    def __init__(self, dataset: Dataset, split: str, batch_sampler: Batches, workers: int, timeout: float) -> None:
        super().__init__(
            dataset,
            batch_sampler=batch_sampler,
            num_workers=workers,
            collate_fn=collate,
            persistent_workers=workers > 0,
            pin_memory=devices.chosen().type == "cuda",
            timeout=timeout if workers else 0,
            worker_init_fn=begin_worker,
        )
        self.data, self.split = dataset, split
        self.bad: dict[str, str] = {}
        host_state.when_leaving(functools.partial(_close, weakref.ref(self)))  # Python would wait for GRACE

    def _get_iterator(self) -> Any:
        return _Batches(self) if self.num_workers else super()._get_iterator()

    def __iter__(self) -> Iterator[dict[str, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        with workers_explained([self.data]):
            yield from self._readable()

    def _readable(self) -> Iterator[dict[str, Any]]:
        try:
            for batch in super().__iter__():
                self.bad |= dict(batch.pop("bad", ()))
                yield batch
        except DataError as error:
            if self.data.skip_bad:
                raise
            without = f"--cfg-options {self.split}_dataloader.skip_bad=True leaves such samples out"
            option = f"{error.option}; {without}" if error.option else without
            sentence = str(error).rpartition("DataError: ")[2].strip()  # of a worker, it is its whole traceback
            raise DataError(sentence, f"{option}, tools/check_data.py CONFIG names all of them") from error


def _close(reference: weakref.ref[Loader]) -> None:
    loader = reference()
    if loader is not None and loader._iterator is not None:
        loader._iterator._shutdown_workers()  # pyright: ignore[reportAttributeAccessIssue]


def build_dataset(cfg: Config, split: str, known: Sequence[str] = ()) -> Dataset:
    """The dataset of a split, with what its place gives: the config's seed, `data_root` unless it names its own, and
    the classes that are `known`."""
    return create(rooted(cfg[f"{split}_dataloader"].dataset, cfg.get("data_root")), cfg.seed, known)


def build_loader(cfg: Config, split: str, known: Sequence[str] = ()) -> Loader:
    options, dataset = Loading(**cfg[f"{split}_dataloader"]), build_dataset(cfg, split, known)
    if len(dataset) == 0:
        raise DataError(f"{type(dataset).__name__} has no {split} samples under {dataset.data_root}")
    workers, shuffle, share = min(options.num_workers, processes.cores()), split == "train", processes.count()
    size = min(options.batch_size, len(dataset) // share if shuffle else len(dataset)) * share
    if size == 0:
        raise DataError(f"{share} processes are more than {len(dataset)} training samples: start fewer")
    kind: Any = TurnBatches if isinstance(dataset, Mixture) else Batches
    length = dataset if isinstance(dataset, Mixture) else len(dataset)
    dataset.skip_bad = options.skip_bad
    if options.random_labels:
        dataset.shuffle_labels()
    dataset.check_memory(workers)
    watch(dataset, workers)
    loops = options.loops
    if loops < 1 or (loops > 1 and not shuffle):
        raise DataError(f"loops are the passes over the training set in an epoch, 1 or more, got {loops} for {split}")
    batches = kind(length, size, shuffle, cfg.seed, processes.rank(), share, loops)
    return Loader(dataset, split, batches, workers, options.timeout)


def all_bad(loaders: dict[str, Loader]) -> dict[str, dict[str, str]]:
    """Split by split, of all processes: the samples that could not be read, and why."""
    found: dict[str, dict[str, str]] = {}
    for split, loader in loaders.items():
        merged = {name: why for one in processes.collected(loader.bad) for name, why in one.items()}
        if merged:
            found[split] = merged
    return found


def tell_bad(bad: dict[str, dict[str, str]], all_of_them: str) -> None:
    """What all_bad() found, the first of it; where the rest is."""
    for split, why in bad.items():
        print(f"{len(why)} samples of {split} could not be read and were left out:")
        print("\n".join(f"  {foreign.single_line(one)}" for one in list(why.values())[:20]))
        if len(why) > 20:
            print(f"  and {len(why) - 20} more: {all_of_them}")
