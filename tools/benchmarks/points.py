#!/usr/bin/env python
"""What an encoding costs in Point Transformer V3: time and memory of the ScanNet-size model, beside no encoding.

python tools/benchmarks/points.py                           9,500 points of a surface, forward, on what there is
python tools/benchmarks/points.py --points 100000 --train   forward and backward
python tools/benchmarks/points.py --encodings PaPE --cpe none
python tools/benchmarks/points.py --points 110000 --amp --out docs/benchmarks   also as .json and .png

Models are taken in turn, `--repeats` times, and the median of each is told. On CPU it is the time of the processor, one
thread, which other work on the machine hardly changes; on a GPU the time on the clock, and the memory at its peak,
beyond what all models hold at rest.
"""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.engine.programs.cli import new_parser, run
from ndformer.framework.tokens import TokenSet, Where
from ndformer.tools.benchmarks.turns import write

ENCODINGS = ("Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", "LookHere", "RelativeBias", "PaPE", "PaPERI")
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
    before = 0
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    begin = clock()
    with torch.autocast(device.type, torch.bfloat16, enabled=amp), torch.set_grad_enabled(train):
        features = model(tokens).features
    if train:
        features.float().square().mean().backward()
        model.zero_grad()
    if gpu:
        torch.cuda.synchronize()
    return clock() - begin, (torch.cuda.max_memory_allocated() - before) / 2**20 if gpu else 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--points", type=int, default=9500)
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS))
    parser.add_argument("--cpe", choices=["xcpe", "none"], default="xcpe")
    parser.add_argument("--train", action="store_true", help="forward and backward")
    parser.add_argument("--amp", action="store_true", help="bf16")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write points_DEVICE... .json and .png there")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    r = surface(args.points).to(device)
    tokens = TokenSet(torch.randn(1, len(r), 6, device=device), Where(r[None]))
    models: dict[str, Any] = {}
    for name in ["none", *args.encodings]:
        torch.manual_seed(0)
        encoding = None if name == "none" else parse_encoding(name)
        models[name] = PTv3(encoding=encoding, cpe=args.cpe).to(device).train(args.train)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for _ in range(args.repeats + 1):  # the first round warms up
        for name, model in models.items():
            found[name].append(once(model, tokens, args.train, args.amp))
    what = f"{'forward and backward' if args.train else 'forward'}, {'bf16' if args.amp else 'float32'}"
    title = f"Point Transformer V3, {len(r)} voxels, cpe {args.cpe}, {what}"
    print(f"{title}, {device}")
    rows: dict[str, dict[str, float]] = {}
    for name, values in found.items():
        ms, peak = 1e3 * statistics.median(s for s, _ in values[1:]), max(m for _, m in values)
        row = rows[name] = dict(ratio=ms / rows["none"]["ms"] if rows else 1.0, ms=ms)
        if device == "cuda":
            row["mib"] = peak
        memory = f"  {peak:8.0f} MiB" if "mib" in row else ""
        print(f"{name:12} {ms:8.1f} ms  {row['ratio']:5.2f} x none{memory}", flush=True)
    if args.out is not None:
        stem = args.out / "_".join(["points", device, args.cpe, *["train"] * args.train, *["bf16"] * args.amp])
        ratios = {title: {name: row["ratio"] for name, row in rows.items()}}
        write(stem, device, dict(title=title, rows=rows), ratios, "none")


if __name__ == "__main__":
    run(main)
