"""Loaders: batches of a config's datasets, what goes wrong in their workers, and what could not be read."""

import functools
import os
import re
import signal
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import torch
from mmengine.config import Config
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from ndformer.framework import devices, foreign, guest, processes
from ndformer.framework.data.batches import Batches, collate
from ndformer.framework.data.dataset import Dataset, create, rooted
from ndformer.framework.data.mixture import Mixture, TurnBatches
from ndformer.framework.engine.config.schema import Loading
from ndformer.framework.errors import DataError

GRACE = 30  # seconds that a loader's worker goes on after SIGTERM, so that the training process can save and end


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
        guest.when_leaving(functools.partial(_close, weakref.ref(self)))  # Python would wait for GRACE

    def __iter__(self) -> Iterator[dict[str, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
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
        dataset.deal_labels()
    dataset.check_memory(workers)
    dataset.board = new_board(workers)
    loops = options.loops
    if loops < 1 or (loops > 1 and not shuffle):
        raise DataError(f"loops are the passes over the training set in an epoch, 1 or more, got {loops} for {split}")
    batches = kind(length, size, shuffle, cfg.seed, processes.rank(), share, loops)
    return Loader(dataset, split, batches, workers, options.timeout)


def end_workers(datasets: Sequence[Dataset]) -> None:
    """Those that hang would be waited for when the program ends."""
    for data in datasets:
        for pid, i in [] if data.board is None else data.board.tolist():
            if i >= 0:
                with suppress(ProcessLookupError, RuntimeError):  # torch raises one where a worker's end is seen
                    os.kill(pid, signal.SIGKILL)
                    time.sleep(0.2)


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
        print("\n".join(f"  {foreign.one_line(one)}" for one in list(why.values())[:20]))
        if len(why) > 20:
            print(f"  and {len(why) - 20} more: {all_of_them}")


def new_board(workers: int) -> Tensor | None:
    """Where each worker writes what it reads; see Dataset.board."""
    return torch.full((workers, 2), -1, dtype=torch.int64).share_memory_() if workers else None


def begin_worker(worker: int) -> None:
    """A preemption signal often goes to all processes of a job: the training process needs its workers to go on."""
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(GRACE))
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    info = get_worker_info()
    board = None if info is None else cast(Dataset, info.dataset).board
    if board is not None:
        board[worker] = torch.tensor([os.getpid(), -1])


@contextmanager
def workers_explained(datasets: Sequence[Dataset]) -> Iterator[None]:
    """The end of a worker, or a wait that is too long, as a sentence that names the samples being read."""
    try:
        yield
    except RuntimeError as error:
        said = str(error)
        dead = {
            int(pid)
            for ids in re.findall(r"DataLoader worker \(pid\(?s?\)? ([\d, ]+)\)", said)
            for pid in ids.split(",")
        }
        late = said.startswith("DataLoader timed out")
        if not dead and not late:
            raise
        reading = [
            data.name(int(i))
            for data in datasets
            if data.board is not None
            for pid, i in data.board.tolist()
            if i >= 0 and (late or pid in dead)
        ]
        names = " or ".join(reading[:4]) or "no sample"
        if late:
            why = f"no batch came for {said.split()[4]} seconds, in which its workers were reading {names}"
            what = "see that they can be read, or raise the loader's timeout"
            end_workers(datasets)
        else:
            why = f"a loader's worker died while it read {names} ({said.splitlines()[0].rstrip('.')})"
            what = "see that it can be read; where memory ran out, take fewer num_workers"
        raise DataError(f"{why}: {what}") from error
