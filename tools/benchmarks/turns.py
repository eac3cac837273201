"""Time calls in turn, so that a busy machine slows all of them alike, and record results with their machine."""

import argparse
import datetime
import json
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.pictures.runs import bars
from ndformer.framework.system import atomic
from ndformer.framework.tokens import TokenSet

Call = Callable[[], Any]
FLUSHED_BYTES = 2**28  # written before each timed call on a GPU, so that no call finds its inputs in the L2 cache


def attention_arguments(parser: argparse.ArgumentParser, repeats: int) -> None:
    """Add the options of benchmarks of attention in a model."""
    parser.add_argument("--amp", action="store_true", help="bf16")
    parser.add_argument("--backend", default="auto", help="of attention (auto)")
    parser.add_argument("--repeats", type=int, default=repeats)


def in_turn(
    calls: Mapping[str, Call],
    repeats: int,
    device: str = "cpu",
    clock: Callable[[], float] = time.process_time,
    warm: int = 1,
) -> dict[str, list[float]]:
    """Return the seconds of every call in every round except the first `warm` rounds: by events on a GPU, else by
    `clock`."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(warm + repeats):
        for name, call in calls.items():
            duration = event_seconds(call) if device == "cuda" else clock_seconds(call, clock)
            if i >= warm:
                seconds[name].append(duration)
    return seconds


def clock_seconds(call: Call, clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def event_seconds(call: Call) -> float:
    start, end = event_pair(call, torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda"))
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def event_pair(call: Call, flushed: torch.Tensor) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Start a call on the GPU after `flushed` is written. Return the events before and after it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flushed.zero_()
    start.record()
    call()
    end.record()
    return start, end


def peak_mib(call: Call) -> float:
    """Run a call on the GPU. Return the most memory that it added to what was allocated before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def model_call(model: torch.nn.Module, tokens: TokenSet, train: bool, amp: bool) -> Call:
    """Return a call of the model's forward pass, with `train` its backward pass too, with `amp` under bf16 autocast."""

    def call() -> None:
        with torch.autocast(tokens.features.device.type, torch.bfloat16, enabled=amp), torch.set_grad_enabled(train):
            features = model(tokens).features
        if train:
            model.zero_grad(set_to_none=True)
            features.float().square().mean().backward()

    return call


def machine(device: str) -> str:
    threads = torch.get_num_threads()
    cpu = f"{platform.machine()} CPU, {threads} thread{'s' * (threads > 1)}"
    return torch.cuda.get_device_name() if device == "cuda" else cpu


def write(stem: Path, device: str, values: dict[str, Any], ratios: dict[str, dict[str, float]], base: str) -> None:
    """Write `values` with the machine and the date to STEM.json, and a chart of `ratios`, if any, to STEM.png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    record = dict(device=machine(device), torch=torch.__version__, date=str(datetime.date.today()), **values)
    atomic.write(stem.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
    if ratios:
        bars(stem.with_suffix(".png"), ratios, base)
    print(f"wrote {stem}.json{f' and {stem}.png' * bool(ratios)}")
