"""Worker processes of data loaders: the sample each one reads, and errors that name it if a worker dies or hangs."""

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

GRACE_S = 30  # a worker lives on after SIGTERM, so that the training process can save and end

_watched: WeakSet[Dataset] = WeakSet()


def watch(data: Dataset, workers: int) -> None:
    """Make each worker process record in `data.worker_status` which sample it reads."""
    data.worker_status = torch.full((workers, 2), -1, dtype=torch.int64).share_memory_() if workers else None
    _watched.add(data)


def begin_worker(worker: int) -> None:
    """Initialize a worker: it survives preemption signals, which often go to all processes of a job, for a while."""
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(GRACE_S))
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    info = get_worker_info()
    status = None if info is None else cast(Dataset, info.dataset).worker_status
    if status is not None:
        status[worker] = torch.tensor([os.getpid(), -1])


def is_worker_death(error: BaseException) -> bool:
    """Return whether an error is torch's report of a dead worker, which its signal handler raises anywhere."""
    return isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker")


def explained(error: Exception, waited_for: Sequence[Dataset] = ()) -> Exception:
    """Return a DataError that names the samples being read if a worker died or timed out, otherwise `error` itself."""
    text = str(error)
    if isinstance(error, RuntimeError) and text.startswith("DataLoader timed out"):
        names = _names(waited_for, None) or "no sample"
        _end_workers(waited_for)
        return DataError(
            f"the loader returned no batch for {text.split()[4]} seconds, while its workers were reading {names}. "
            "Check that these samples can be read, or raise the loader's timeout."
        )
    if not is_worker_death(error):
        return error
    host_state.ignore_dead_workers()
    dead = {int(pid) for ids in re.findall(r"\(pid\(?s?\)? ([\d, ]+)\)", text) for pid in ids.split(",")}
    names = _names(_watched, dead)
    return DataError(
        f"a loader's worker died {f'while it read {names}' if names else 'between two samples'} "
        f"({text.splitlines()[0].rstrip('. ')}). Check that it can be read; if memory ran out, lower num_workers."
    )


@contextmanager
def workers_explained(waited_for: Sequence[Dataset] = ()) -> Iterator[None]:
    """Raise explained(error) instead of a RuntimeError of the body."""
    try:
        yield
    except RuntimeError as error:
        explanation = explained(error, waited_for)
        if explanation is error:
            raise
        raise explanation from error


def _reading(datasets: Iterable[Dataset]) -> Iterator[tuple[Dataset, int, int]]:
    """Yield the dataset, the process id and the sample of each worker that is reading one."""
    for data in datasets:
        for pid, i in [] if data.worker_status is None else data.worker_status.tolist():
            if i >= 0:
                yield data, pid, i


def _names(datasets: Iterable[Dataset], workers: set[int] | None) -> str:
    """Return the names of the samples that these worker processes, or all of them, are reading."""
    names = [data.name(i) for data, pid, i in _reading(datasets) if workers is None or pid in workers]
    return " or ".join(names[:4])


def _end_workers(datasets: Sequence[Dataset]) -> None:
    """Kill workers that hang: the program would wait for them at its end."""
    for _, pid, _ in _reading(datasets):
        with suppress(ProcessLookupError, RuntimeError):  # torch raises RuntimeError when it notices
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
