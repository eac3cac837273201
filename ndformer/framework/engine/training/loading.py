"""Data loaders of a config, and the samples that they could not read."""

import functools
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mmengine.config import Config
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from ndformer.framework import foreign
from ndformer.framework.data.batches import Batches, collate
from ndformer.framework.data.dataset import Dataset, create, rooted
from ndformer.framework.data.mixture import Mixture, TurnBatches
from ndformer.framework.data.token_batches import LengthBatches, TokenBatches
from ndformer.framework.data.workers import begin_worker, watch, workers_explained
from ndformer.framework.engine.config.schema import Loading
from ndformer.framework.engine.training.token_lengths import cells_by_length, token_lengths
from ndformer.framework.errors import DataError
from ndformer.framework.system import devices, host_state, processes

POLL_EVERY = 1.0  # seconds between checks whether workers are alive


class _LoaderIterator(_MultiProcessingDataLoaderIter):
    """torch's iterator, which also notices dead workers before its timeout has passed."""

    def _try_get_data(self, timeout: float = POLL_EVERY) -> Any:
        until = time.monotonic() + timeout
        while True:
            result = super()._try_get_data(max(0.0, min(POLL_EVERY, until - time.monotonic())))
            if result[0] or time.monotonic() >= until:
                return result


class Loader(DataLoader[Any]):
    """A DataLoader that collects in `bad` the samples that could not be used, with their errors."""

    def __init__(self, dataset: Dataset, split: str, batch_sampler: Batches, workers: int, timeout: float) -> None:
        super().__init__(
            dataset,
            batch_sampler=batch_sampler,
            num_workers=workers,
            collate_fn=collate,
            persistent_workers=workers > 0,
            pin_memory=devices.select().type == "cuda",
            timeout=timeout if workers else 0,
            worker_init_fn=begin_worker,
        )
        self.data, self.split = dataset, split
        self.bad: dict[str, str] = {}
        host_state.on_exit(functools.partial(_close, weakref.ref(self)))  # else Python waits for the workers at exit

    def _get_iterator(self) -> Any:
        return _LoaderIterator(self) if self.num_workers else super()._get_iterator()

    def restart(self) -> None:
        """End the workers, whose copy of the data set is as it was when they began; the next ones have it as it is."""
        if self._iterator is not None:
            self._iterator._shutdown_workers()  # pyright: ignore[reportAttributeAccessIssue]
            self._iterator = None

    def __iter__(self) -> Iterator[dict[str, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        with workers_explained([self.data]):
            try:
                for batch in super().__iter__():
                    self.bad |= dict(batch.pop("bad", ()))
                    yield batch
            except DataError as error:
                if self.data.skip_bad:
                    raise
                without = f"--cfg-options {self.split}_dataloader.skip_bad=True skips such samples"
                option = f"{error.option}; {without}" if error.option else without
                sentence = str(error).rpartition("DataError: ")[2].strip()  # a worker sends its traceback
                raise DataError(sentence, f"{option}, ndformer check_data CONFIG lists all of them") from error


def _close(reference: weakref.ref[Loader]) -> None:
    loader = reference()
    if loader is not None and loader._iterator is not None:
        loader._iterator._shutdown_workers()  # pyright: ignore[reportAttributeAccessIssue]


def build_dataset(cfg: Config, split: str, class_names: Sequence[str] = ()) -> Dataset:
    """Build the dataset of a split with the config's seed and `data_root`; `class_names` are a checkpoint's."""
    return create(rooted(cfg[f"{split}_dataloader"].dataset, cfg.get("data_root")), cfg.seed, class_names)


def build_loader(cfg: Config, split: str, class_names: Sequence[str] = ()) -> Loader:
    """Build the data loader of a split, with this process's share of its samples."""
    options, dataset = Loading(**cfg[f"{split}_dataloader"]), build_dataset(cfg, split, class_names)
    if len(dataset) == 0:
        raise DataError(f"{type(dataset).__name__} has no {split} samples under {dataset.data_root}")
    workers, shuffle, share = min(options.num_workers, processes.cores()), split == "train", processes.count()
    size = min(options.batch_size, len(dataset) // share if shuffle else len(dataset)) * share
    if size == 0:
        raise DataError(f"expected at most {len(dataset)} processes, one per training sample, got {share}. Start fewer")
    kind: Any = TurnBatches if isinstance(dataset, Mixture) else Batches
    length = dataset if isinstance(dataset, Mixture) else len(dataset)
    dataset.skip_bad = options.skip_bad
    if options.random_labels:
        dataset.shuffle_labels()
    dataset.check_memory(workers)
    watch(dataset, workers)
    loops = options.loops
    if loops < 1 or (loops > 1 and not shuffle):
        raise DataError(f"{split}_dataloader.loops: expected 1{' or more' * shuffle}, got {loops}")
    batches, bad = kind(length, size, shuffle, cfg.seed, processes.rank(), share, loops), {}
    if options.batch_tokens is not None:
        if split != "train":
            raise DataError(f"{split}_dataloader.batch_tokens: expected it for training alone. Remove it")
        place = cfg.seed, processes.rank(), share, loops
        if options.lengths is not None:
            batches = _length_batches(cfg, dataset, options.lengths, options.batch_tokens, place)
        else:
            lengths, bad = token_lengths(cfg, dataset, options.batch_tokens)
            if (lengths < 0).all():
                raise DataError(f"no training sample can be used. The first error: {next(iter(bad.values()), '')}")
            batches = TokenBatches(lengths, options.batch_tokens, *place)
            dataset.usable = np.argsort(-lengths, kind="stable")[: len(batches.usable)]
    elif options.lengths is not None:
        raise DataError(f"{split}_dataloader.lengths: expected batch_tokens with it, got none. Set batch_tokens")
    batches.shards, dataset.loops = dataset.shards, batches.loops
    loader = Loader(dataset, split, batches, workers, options.timeout)
    loader.bad |= bad
    return loader


def _length_batches(
    cfg: Config, data: Dataset, lengths: Sequence[int], tokens: int, place: tuple[int, int, int, int]
) -> LengthBatches:
    smallest, cells = cells_by_length(cfg, data, lengths)
    if not lengths or min(lengths) < smallest or max(lengths) > tokens:
        raise DataError(
            f"train_dataloader.lengths: expected numbers of tokens from {smallest} to batch_tokens={tokens}, got "
            f"{list(lengths)}. Change them, or raise batch_tokens"
        )
    return LengthBatches(len(data), lengths, tokens, cells, *place)


def timed_batches(loader: DataLoader[Any], epoch: int, skip: int) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield the batches of an epoch after the first `skip`, each with the seconds waited for it."""
    sampler: Any = loader.batch_sampler
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
    sampler.skip = skip
    mark = time.perf_counter()
    for batch in loader:
        yield batch, time.perf_counter() - mark
        mark = time.perf_counter()


def all_bad(loaders: Mapping[str, Loader]) -> dict[str, dict[str, str]]:
    """Return the samples that could not be used, by split, with their errors, of all processes."""
    bad: dict[str, dict[str, str]] = {}
    for split, loader in loaders.items():
        merged = {name: why for part in processes.gather_objects(loader.bad) for name, why in part.items()}
        if merged:
            bad[split] = merged
    return bad


def print_bad(bad: dict[str, dict[str, str]], full_list: str) -> None:
    """Print the first samples of `all_bad()`; `full_list` says where to find all."""
    for split, why in bad.items():
        samples, were = ("sample", "was") if len(why) == 1 else ("samples", "were")
        print(f"{len(why)} {samples} of {split} could not be used and {were} skipped:")
        print("\n".join(f"  {foreign.single_line(error)}" for error in list(why.values())[:20]))
        if len(why) > 20:
            print(f"  and {len(why) - 20} more: {full_list}")


def dropped_warning(batches: Batches) -> str | None:
    """Return a warning if a quarter or more of the training samples are in no batch of an epoch, else None."""
    total = batches.length * batches.loops
    if 4 * batches.dropped < total:
        return None
    size, enough = batches.batch_size, max(1, total // 8)
    return (
        f"training: {batches.dropped} of {total} samples are left out of each epoch, since a batch has {size} and an "
        f"incomplete one is dropped. Set train_dataloader.batch_size={enough} or less"
    )
