"""What an encoding costs in Point Transformer V3: time and memory of the ScanNet-size model, beside no encoding.

tools/benchmark_points.py                                  9,500 points of a surface, forward, on what there is
tools/benchmark_points.py --points 100000 --train          forward and backward
tools/benchmark_points.py --encodings PaPE --cpe none

Models are taken in turn, `--repeats` times, and the median of each is told. On CPU it is the time of the processor, one
thread, which other work on the machine hardly changes; on a GPU the time on the clock, and the memory at its peak.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from ndformer.framework.backbones.ptv3 import PTv3
from ndformer.framework.engine.cli import run
from ndformer.framework.engine.text import parse_encoding
from ndformer.framework.tokens import TokenSet, Where

ENCODINGS = ("Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", "PaPE", "PaPERI")
VOXEL, SPACING = 0.02, 0.0225  # metres; what makes about one point of a voxel


def surface(points: int) -> torch.Tensor:
    """(N, 3) a wavy sheet with one point in each voxel."""
    g = torch.Generator().manual_seed(0)
    u = torch.rand(points, 2, generator=g) * SPACING * points**0.5
    r = torch.cat([u, 0.3 * (3 * u[:, :1]).sin() * (2 * u[:, 1:]).cos()], 1)
    voxel = torch.unique((r / VOXEL).floor(), dim=0, return_inverse=True)[1]
    last = torch.zeros(int(voxel.max()) + 1, dtype=torch.int64).scatter_(0, voxel, torch.arange(points))
    return r[last]


def once(model: PTv3, tokens: TokenSet, train: bool, amp: bool) -> tuple[float, float]:
    """Seconds and MiB."""
    device = tokens.features.device
    gpu = device.type == "cuda"
    clock = time.perf_counter if gpu else time.process_time
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    begin = clock()
    with torch.autocast(device.type, torch.bfloat16, enabled=amp), torch.set_grad_enabled(train):
        features = model(tokens).features
    if train:
        features.float().square().mean().backward()
        model.zero_grad()
    if gpu:
        torch.cuda.synchronize()
    return clock() - begin, torch.cuda.max_memory_allocated() / 2**20 if gpu else 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=9500)
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS))
    parser.add_argument("--cpe", choices=["xcpe", "none"], default="xcpe")
    parser.add_argument("--train", action="store_true", help="forward and backward")
    parser.add_argument("--amp", action="store_true", help="bf16")
    parser.add_argument("--repeats", type=int, default=6)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    r = surface(given.points).to(device)
    tokens = TokenSet(torch.randn(1, len(r), 6, device=device), Where(r[None]))
    models: dict[str, Any] = {}
    for name in ["none", *given.encodings]:
        torch.manual_seed(0)
        encoding = None if name == "none" else parse_encoding(name)
        models[name] = PTv3(encoding=encoding, cpe=given.cpe).to(device).train(given.train)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for _ in range(given.repeats + 1):  # the first round warms up
        for name, model in models.items():
            found[name].append(once(model, tokens, given.train, given.amp))
    print(f"{len(r)} voxels, {device}, cpe {given.cpe}, {'forward and backward' if given.train else 'forward'}")
    base = statistics.median(seconds for seconds, _ in found["none"][1:])
    for name, values in found.items():
        seconds = statistics.median(s for s, _ in values[1:])
        memory = f"  {max(m for _, m in values):8.0f} MiB" if device == "cuda" else ""
        print(f"{name:12} {1e3 * seconds:8.1f} ms  {seconds / base:5.2f} x none{memory}", flush=True)


if __name__ == "__main__":
    run(main)
