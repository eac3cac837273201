"""Distributed data parallel (DDP) training that gives the same result as a single process.

Rank r of W handles rows r B to (r + 1) B of a batch of W B samples. Every process draws the random numbers of all rows
from the same seed and uses those of its rows, so results do not depend on the number of processes.
"""

import atexit
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
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
TIMEOUT = timedelta(minutes=30)  # a process that waits longer for other ranks exits


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the process group that torchrun sets in the environment, if any. Only rank 0 prints."""
    if "WORLD_SIZE" not in os.environ:
        yield
        return
    device = devices.select()
    if device.index is not None:
        raise DataError(f"device for several processes must be without an index, got {device}. Use {device.type}")
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = backend_for(device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_peer_failures())
        store, own_rank, world_size = next(rendezvous("env://", timeout=TIMEOUT))
        # after a restart the store may contain addresses of processes from the previous start
        store = PrefixStore(os.environ.get(RESTARTS, "0"), store)
        _check_environment(store, own_rank, world_size, f"torch {torch.__version__} with {backend}")
        dist.init_process_group(backend, store=store, rank=own_rank, world_size=world_size, timeout=TIMEOUT)
        if rank() > 0:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        yield
        dist.barrier()  # leaving while another process still communicates makes that process fail
        dist.destroy_process_group()


def backend_for(device: torch.device) -> str:
    """Return the backends of the process group: on GPUs also that for CPU tensors, such as shards in CPU memory."""
    return "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"


def _check_environment(store: Store, process_rank: int, world_size: int, kind: str) -> None:
    """Raise in every process if torch versions or backends differ, as such processes would wait forever."""
    store.set(f"kind of {process_rank}", kind)
    kinds = [store.get(f"kind of {i}").decode() for i in range(world_size)]
    store.set(f"seen by {process_rank}", "")
    if process_rank == 0:
        store.wait([f"seen by {i}" for i in range(world_size)])  # rank 0 may host the store
    other = next((i for i in range(world_size) if kinds[i] != kinds[0]), None)
    if other is not None:
        raise DataError(
            f"all processes must have the same environment, but rank {other} has {kinds[other]} and rank 0 "
            f"{kinds[0]}. Start all with the same packages on hosts of the same kind"
        )


@contextlib.contextmanager
def _peer_failures() -> Iterator[None]:
    """Convert communication errors, caused by another process that ended, to DataError."""
    try:
        yield
    except RuntimeError as error:
        late = "imed out waiting" in str(error) or (isinstance(error, dist.DistError) and "imed out" in str(error))
        lost = isinstance(error, dist.DistBackendError) or re.search(
            r"onnection (closed|reset|refused|was closed)|Failed to recv", str(error)
        )
        if not (late or lost):
            raise
        atexit.register(_exit_now)
        if late:
            waited = f"another process of this run did not answer for {TIMEOUT.total_seconds() / 60:.0f} minutes"
            raise DataError(f"{waited}. Check that all are started and running", "--resume continues") from error
        raise DataError("another process of this run ended. See its error message", "--resume continues") from error


def _exit_now() -> None:
    """Exit at once: the shutdown of the interpreter would wait for the lost process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def start(command: Sequence[str], environment: dict[str, str], **options: Any) -> subprocess.Popen[Any]:
    """Start one of our programs so that it ends with this process, even after SIGKILL, saving its state first.

    Its standard input is a pipe; the program stops when the pipe closes. Close it after the program has ended.
    """
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment | {CHILD: "1"}, **options)


def end_with_parent() -> None:
    """Watch for the end of the parent, if start() began this program."""
    if os.environ.pop(CHILD, None):  # not inherited by child processes
        threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def is_launched() -> bool:
    """Return whether torchrun started this process."""
    return RESTARTS in os.environ


def is_restarted() -> bool:
    """Return whether torchrun restarted the processes (--max-restarts) after a failure."""
    return int(os.environ.get(RESTARTS, "0")) > 0


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if is_distributed() else 0


def count() -> int:
    return dist.get_world_size() if is_distributed() else 1


def rows(local_batch: int) -> slice:
    """Return the rows of this process in a batch of `local_batch` rows per process."""
    return slice(rank() * local_batch, (rank() + 1) * local_batch)


def rand(local_batch: int, *shape: int, device: torch.device | None = None) -> Tensor:
    """Return torch.rand(local_batch, *shape) for the rows of this process."""
    return torch.rand(local_batch * count(), *shape, device=device)[rows(local_batch)]


def mean(value: Tensor) -> Tensor:
    """Return the mean over processes."""
    if is_distributed():
        value = value.clone()
        dist.all_reduce(value)
        value /= count()
    return value


def broadcast(tensors: Iterable[Tensor]) -> None:
    """Give all processes the values of rank 0, in place; not for shards."""
    if is_distributed():
        for tensor in tensors:
            dist.broadcast(tensor.detach(), 0)


def shared_divisor(count: Tensor) -> Tensor:
    """Return the divisor of a sum over `count` samples, points or weights of this process: at least 1 in all.

    It is the mean of `count` over the processes, so that the mean of the losses of all processes is their global sum
    divided by the global count, however uneven their batches are.
    """
    if not is_distributed():
        return count.clamp(min=1)
    total = count.detach().clone()
    dist.all_reduce(total)
    return total.clamp(min=1) / dist.get_world_size()


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is a DTensor, of which each process has a shard."""
    module = sys.modules.get("torch.distributed.tensor")  # importing it takes long
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """Return the shard of this process, or the tensor itself if it is not sharded."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # pyright: ignore[reportAttributeAccessIssue]


def gather(value: Tensor) -> Tensor:
    """Return the rows of all processes in order of rank, without gradients."""
    if not is_distributed():
        return value
    gathered = [torch.empty_like(value, memory_format=torch.contiguous_format) for _ in range(count())]
    dist.all_gather(gathered, value.contiguous())
    return torch.cat(gathered)


def gather_rows(value: Tensor) -> Tensor:
    """Return the rows of all processes in order of rank, for a loss over all of them; their numbers may differ.

    The gradient of the rows of this process is multiplied by the number of processes, because each process computes
    the whole loss from its own rows: the mean of gradients over processes is then the gradient of one process.
    """
    if not is_distributed():
        return value
    sizes = gather_objects(len(value))
    padded = value.new_zeros(max(sizes), *value.shape[1:])
    padded[: len(value)] = value.detach()
    parts = [part[:size] for part, size in zip(gather(padded).unflatten(0, (count(), max(sizes))), sizes)]
    parts[rank()] = value.view_as(value)  # a tensor of its own, for the hook
    if value.requires_grad:
        parts[rank()].register_hook(lambda gradient: gradient * count())
    return torch.cat(parts)


def gather_objects(value: T) -> Sequence[T]:
    """Return the values of all processes in order of rank."""
    if not is_distributed():
        return [value]
    gathered: list[Any] = [None] * count()
    dist.all_gather_object(gathered, value)
    return gathered


def wait() -> None:
    """Wait for all processes (barrier)."""
    if is_distributed():
        dist.barrier()
