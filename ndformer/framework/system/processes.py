"""Several processes (DDP), each with its rows of every batch, that together do what one process would.

Rank r of W has rows r B to (r + 1) B of a batch of W B samples. Random numbers are drawn for all rows in every process,
from the same seed, and each takes its own: so the number of processes does not change them.
"""

import atexit
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from ndformer.framework.errors import DataError
from ndformer.framework.system import devices

T = TypeVar("T")
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
CHILD = "NDFORMER_ENDS_WITH_ITS_PARENT"
TIMEOUT = timedelta(minutes=30)  # a process that waits longer for the others ends


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """In the group that torchrun names in the environment, if there is one. Only rank 0 prints."""
    if "WORLD_SIZE" not in os.environ:
        yield
        return
    device = devices.select()
    if device.index is not None:
        raise DataError(f"{device} is one device, and there are several processes: ask for {device.type}")
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "nccl" if cuda else "gloo"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_peer_failures())
        store, own, world_size = next(rendezvous("env://", timeout=TIMEOUT))
        # started again they may find the store of the start before, with the addresses of processes that are gone
        store = PrefixStore(os.environ.get(RESTARTS, "0"), store)
        _check_alike(store, own, world_size, f"torch {torch.__version__} with {backend}")
        dist.init_process_group(backend, store=store, rank=own, world_size=world_size, timeout=TIMEOUT)
        if rank() > 0:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        yield
        dist.barrier()  # a group that is left while another process still talks in it fails there
        dist.destroy_process_group()


def _check_alike(store: Store, own: int, world_size: int, kind: str) -> None:
    """Processes that speak in different ways would wait for each other: a sentence in each, before they are a group."""
    store.set(f"kind of {own}", kind)
    kinds = [store.get(f"kind of {one}").decode() for one in range(world_size)]
    store.set(f"seen by {own}", "")
    if own == 0:
        store.wait([f"seen by {one}" for one in range(world_size)])  # it may be the one that keeps the store
    other = next((one for one in range(world_size) if kinds[one] != kinds[0]), None)
    if other is not None:
        raise DataError(
            f"the processes of this run do not agree: rank {other} has {kinds[other]}, rank 0 {kinds[0]}. Start all in "
            "the same environment, on hosts of the same kind"
        )


@contextlib.contextmanager
def _peer_failures() -> Iterator[None]:
    """That another process has ended shows in the next exchange with it."""
    try:
        yield
    except RuntimeError as error:
        late = "imed out waiting" in str(error) or (isinstance(error, dist.DistError) and "imed out" in str(error))
        lost = isinstance(error, dist.DistBackendError) or re.search(
            r"onnection (closed|reset|refused|was closed)|Failed to recv", str(error)
        )
        if not (late or lost):
            raise
        atexit.register(_leave)
        if late:
            waited = f"another process of this run did not answer for {TIMEOUT.total_seconds() / 60:.0f} minutes"
            raise DataError(f"{waited}: see that all are started, and what it does", "--resume goes on") from error
        raise DataError("another process of this run has ended, and says why", "--resume goes on") from error


def _leave() -> None:
    """Now: the end of the interpreter would wait for the process that is gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def start(command: Sequence[str], environment: dict[str, str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program of ours that ends when this process does, even by SIGKILL: it saves what it can first.

    Its standard input is a pipe that nobody writes to, and whose end it waits for. Close it when the program has ended.
    """
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment | {CHILD: "1"}, **options)


def end_with_parent() -> None:
    """Where start() began this program."""
    if os.environ.pop(CHILD, None):  # not for programs that this one starts
        threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def is_launched() -> bool:
    """Whether torchrun has started this process."""
    return RESTARTS in os.environ


def is_restarted() -> bool:
    """Whether torchrun has started these processes again, as its --max-restarts allows, after one had ended."""
    return int(os.environ.get(RESTARTS, "0")) > 0


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if is_distributed() else 0


def count() -> int:
    return dist.get_world_size() if is_distributed() else 1


def rows(own: int) -> slice:
    """This process's rows of a batch in which each process has as many."""
    return slice(rank() * own, (rank() + 1) * own)


def rand(own: int, *shape: int, device: torch.device | None = None) -> Tensor:
    """torch.rand(own, *shape) for this process's rows."""
    return torch.rand(own * count(), *shape, device=device)[rows(own)]


def mean(value: Tensor) -> Tensor:
    """The mean over processes."""
    if is_distributed():
        value = value.clone()
        dist.all_reduce(value)
        value /= count()
    return value


def gather(value: Tensor) -> Tensor:
    """The rows of all processes, in order of rank; without gradients."""
    if not is_distributed():
        return value
    found = [torch.empty_like(value, memory_format=torch.contiguous_format) for _ in range(count())]
    dist.all_gather(found, value.contiguous())
    return torch.cat(found)


def gather_objects(value: T) -> Sequence[T]:
    """The values of all processes, in order of rank."""
    if not is_distributed():
        return [value]
    found: list[Any] = [None] * count()
    dist.all_gather_object(found, value)
    return found


def wait() -> None:
    """Until all processes are here."""
    if is_distributed():
        dist.barrier()
