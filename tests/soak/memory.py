"""Peak memory of each process under DDP or FSDP beside the sum that tools/memory.py calculates.

python -m tests.soak.memory --dim 1024 --depth 24 --processes 4 --parallel fsdp     302 M parameters

Measured is the peak of the resident memory of a process less that before the model is built, while torch is warm and
malloc returns what is freed: the start, until the model is sharded, and three training steps.
"""

import argparse
import ctypes
import gc
import platform
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ndformer.cli import memory
from ndformer.framework.engine.training import fsdp
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel, parallelize
from ndformer.framework.system import malloc
from tests.soak.tiny import config, register
from tests.spawned import spawned

assert fsdp  # imported here, once for all processes that are forked


def sized(dim: int, depth: int, batch: int = 1, amp: str | None = None) -> Config:
    cfg = config(batch, ema=None)
    cfg.model.backbone.update(dim=dim, depth=depth, heads=max(1, dim // 64))
    cfg.train_cfg.amp = amp
    return cfg


def _resident(peak: bool = False) -> int:
    """Return the bytes of this process that are in memory, now or at most since _reset()."""
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status)
    assert found
    return 1024 * int(found[1])


def _reset() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _return_freed() -> None:
    """Let malloc return every freed tensor of 64 KiB or more to the system."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(malloc.MMAP_THRESHOLD, 2**16)


def measured(cfg: Config, parallel: Any) -> dict[str, int]:
    """Return the bytes that this process has at most: at the start, and while it trains."""
    _return_freed()
    register()
    train(sized(64, 2, amp=cfg.train_cfg.amp), parallel)
    gc.collect()
    return train(cfg, parallel)


def train(cfg: Config, parallel: Any) -> dict[str, int]:
    before = _resident()
    _reset()
    cfg, model, loader = memory.prepare(cfg)
    running = parallelize(model, Parallel.from_config(dict(parallel=parallel)), model.amp)
    optimizer = build_optimizer(model, cfg.optimizer)
    start = _resident(peak=True) - before
    _reset()
    batches = iter(loader)
    for _ in range(memory.STEPS):
        with torch.autocast("cpu", model.amp, enabled=model.amp is not None):
            loss = model.total(running(**next(batches), mode="loss"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return dict(start=start, training=_resident(peak=True) - before)


def calculated(cfg: Config, count: int, parallel: str) -> dict[str, int]:
    """Return the bytes of one of `count` processes by kind."""
    register()
    cfg, model, loader = memory.prepare(cfg)
    # DDP has buckets in a group of one too
    return memory.calculate(cfg, model, loader, max(2, count), Parallel(parallel))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=192)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], default="fsdp")
    parser.add_argument("--amp")
    args = parser.parse_args(arguments)
    cfg = sized(args.dim, args.depth, args.batch, args.amp)
    kinds = spawned(1, calculated, cfg, args.processes, args.parallel)[0]
    found = spawned(args.processes, partial(measured, cfg), args.parallel)
    most = max(process["training"] for process in found)
    total = sum(kinds.values())
    print(f"{args.parallel}, {args.processes} processes, MiB")
    print(", ".join(f"{kind} {size / 2**20:.1f}" for kind, size in kinds.items()))
    print(f"measured {[{k: round(v / 2**20, 1) for k, v in p.items()} for p in found]}")
    print(f"calculated {total / 2**20:.1f}, measured {most / 2**20:.1f}, ratio {most / total:.3f}")


if __name__ == "__main__":
    main()
