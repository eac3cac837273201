"""Functions that tests run on several gloo processes, forked so that torch is imported once."""

import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # imported by FSDP's first step, here once instead of in each process
import torch.distributed as dist

from ndformer.framework.registry import ENCODINGS, MODALITIES


def spawned(count: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return function(*arguments) of each rank of a group of `count` processes; raise the error of one that fails."""
    for registry in (ENCODINGS, MODALITIES):
        registry.all()  # imported before the fork, once for all processes
    with tempfile.TemporaryDirectory() as folder:
        children = [_forked(rank, count, Path(folder), function, arguments) for rank in range(count)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        for rank, code in enumerate(codes):
            error = Path(folder) / f"error{rank}"
            assert code == 0, error.read_text() if error.exists() else f"rank {rank} ended with code {code}"
        return [torch.load(Path(folder) / f"result{rank}", weights_only=False) for rank in range(count)]


def _forked(rank: int, count: int, folder: Path, function: Callable[..., Any], arguments: Any) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count)
        torch.save(function(*arguments), folder / f"result{rank}")
        dist.barrier()
        dist.destroy_process_group()
        code = 0
    except BaseException:
        (folder / f"error{rank}").write_text(traceback.format_exc())
    finally:
        os._exit(code)
