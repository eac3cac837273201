"""Time calls in turn, so that a busy machine slows all of them alike, and record results with their machine."""

import datetime
import json
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.pictures.runs import bars


def in_turn(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    device: str = "cpu",
    clock: Callable[[], float] = time.process_time,
    warm: int = 1,
) -> dict[str, list[float]]:
    """Return the seconds of every call in every round, except the first `warm` rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(warm + repeats):
        for name, call in calls.items():
            synchronize(device)
            start = clock()
            call()
            synchronize(device)
            if i >= warm:
                seconds[name].append(clock() - start)
    return seconds


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def machine(device: str) -> str:
    threads = torch.get_num_threads()
    cpu = f"{platform.machine()} CPU, {threads} thread{'s' * (threads > 1)}"
    return torch.cuda.get_device_name() if device == "cuda" else cpu


def write(stem: Path, device: str, values: dict[str, Any], ratios: dict[str, dict[str, float]], base: str) -> None:
    """Write `values` with the machine and the date to STEM.json, and a chart of `ratios`, if any, to STEM.png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    record = dict(device=machine(device), torch=torch.__version__, date=str(datetime.date.today()), **values)
    stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    if ratios:
        bars(stem.with_suffix(".png"), ratios, base)
    print(f"wrote {stem}.json{f' and {stem}.png' * bool(ratios)}")
