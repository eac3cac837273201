"""Worker processes of loaders: which sample each reads, and one sentence where a worker dies or hangs."""

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import cast
from weakref import WeakSet

import torch
from torch.utils.data import get_worker_info

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import DataError
from ndformer.framework.system import host_state

GRACE = 30  # seconds that a loader's worker goes on after SIGTERM, so that the training process can save and end

_watched: WeakSet[Dataset] = WeakSet()


def watch(data: Dataset, workers: int) -> None:
    """Have each worker process write into `data.board` which sample it reads."""
    data.board = torch.full((workers, 2), -1, dtype=torch.int64).share_memory_() if workers else None
    _watched.add(data)


def begin_worker(worker: int) -> None:
    """A preemption signal often goes to all processes of a job: the training process needs its workers to go on."""
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(GRACE))
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    info = get_worker_info()
    board = None if info is None else cast(Dataset, info.dataset).board
    if board is not None:
        board[worker] = torch.tensor([os.getpid(), -1])


def is_worker_death(error: BaseException) -> bool:
    """Whether torch reports the end of a worker process; its signal handler raises that wherever the program is."""
    return isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker")


def explained(error: Exception, waited_for: Sequence[Dataset] = ()) -> Exception:
    """Return the death of a worker, or a wait that is too long, as a DataError that names the samples being read.

    Other errors are returned as they are.
    """
    said = str(error)
    if isinstance(error, RuntimeError) and said.startswith("DataLoader timed out"):
        names = _names(waited_for, None) or "no sample"
        _end_workers(waited_for)
        return DataError(
            f"no batch came for {said.split()[4]} seconds, in which its workers were reading {names}: see that they "
            "can be read, or raise the loader's timeout"
        )
    if not is_worker_death(error):
        return error
    host_state.ignore_dead_workers()
    dead = {int(pid) for ids in re.findall(r"\(pid\(?s?\)? ([\d, ]+)\)", said) for pid in ids.split(",")}
    names = _names(_watched, dead)
    return DataError(
        f"a loader's worker died {f'while it read {names}' if names else 'between two samples'} "
        f"({said.splitlines()[0].rstrip('. ')}): see that it can be read; where memory ran out, take fewer num_workers"
    )


@contextmanager
def workers_explained(waited_for: Sequence[Dataset] = ()) -> Iterator[None]:
    """explained() for errors raised meanwhile."""
    try:
        yield
    except RuntimeError as error:
        found = explained(error, waited_for)
        if found is error:
            raise
        raise found from error


def _names(datasets: Iterable[Dataset], workers: set[int] | None) -> str:
    """The samples that these worker processes, or all, are reading."""
    reading = [
        data.name(int(i))
        for data in datasets
        if data.board is not None
        for pid, i in data.board.tolist()
        if i >= 0 and (workers is None or pid in workers)
    ]
    return " or ".join(reading[:4])


def _end_workers(datasets: Sequence[Dataset]) -> None:
    """Those that hang would be waited for when the program ends."""
    for data in datasets:
        for pid, i in [] if data.board is None else data.board.tolist():
            if i >= 0:
                with suppress(ProcessLookupError, RuntimeError):  # torch raises one where a worker's end is seen
                    os.kill(pid, signal.SIGKILL)
                    time.sleep(0.2)
