#!/usr/bin/env python
"""Measure time and memory of encodings in Point Transformer V3 of the ScanNet size, relative to no encoding.

    ndformer benchmarks/points                           9,500 points of a surface, forward
    ndformer benchmarks/points --points 100000 --train   forward and backward
    ndformer benchmarks/points --encodings PaPE --cpe none
    ndformer benchmarks/points --points 110000 --amp --out docs/benchmarks   also as .json and .png

The models run in turn in each of `--repeats` rounds; the table has the median of each. On a CPU it is processor time of
one thread, which other work on the machine hardly changes. On a GPU it is the time between two events, and the table
has the peak memory that a call adds to what is allocated.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path

import torch

from ndformer.cli.program import new_parser, run
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.tokens import TokenSet, Where
from ndformer.tools.benchmarks.turns import Call, attention_arguments, in_turn, model_call, peak_mib, write

ENCODINGS = ("Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", "LookHere", "RelativeBias", "PaPE", "PaPERI")
VOXEL, SPACING = 0.02, 0.0225  # meters; gives about one point in each voxel


def surface(points: int) -> torch.Tensor:
    """Return points (N, 3) of a wavy sheet, one in each voxel."""
    g = torch.Generator().manual_seed(0)
    u = torch.rand(points, 2, generator=g) * SPACING * points**0.5
    r = torch.cat([u, 0.3 * (3 * u[:, :1]).sin() * (2 * u[:, 1:]).cos()], 1)
    voxel = torch.unique((r / VOXEL).floor(), dim=0, return_inverse=True)[1]
    last = torch.zeros(int(voxel.max()) + 1, dtype=torch.int64).scatter_(0, voxel, torch.arange(points))
    return r[last]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--points", type=int, default=9500)
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS))
    parser.add_argument("--cpe", choices=["xcpe", "none"], default="xcpe")
    parser.add_argument("--train", action="store_true", help="forward and backward")
    attention_arguments(parser, repeats=6)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write points_DEVICE... .json and .png there")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    r = surface(args.points).to(device)
    tokens = TokenSet(torch.randn(1, len(r), 6, device=device), Where(r[None]))
    calls: dict[str, Call] = {}
    for name in ["none", *args.encodings]:
        torch.manual_seed(0)
        encoding = None if name == "none" else parse_encoding(name)
        model = PTv3(encoding=encoding, cpe=args.cpe, backend=args.backend).to(device).train(args.train)
        calls[name] = model_call(model, tokens, args.train, args.amp)
    seconds = in_turn(calls, args.repeats, device)
    mode = f"{'forward and backward' if args.train else 'forward'}, {'bf16' if args.amp else 'float32'}"
    title = f"Point Transformer V3, {len(r)} voxels, cpe {args.cpe}, {mode}"
    print(f"{title}, {device}")
    rows: dict[str, dict[str, float]] = {}
    for name, times in seconds.items():
        ms = 1e3 * statistics.median(times)
        row = rows[name] = dict(ratio=ms / rows["none"]["ms"] if rows else 1.0, ms=ms)
        if device == "cuda":
            row["mib"] = peak_mib(calls[name])
        memory = f"  {row['mib']:8.0f} MiB" if "mib" in row else ""
        print(f"{name:12} {ms:8.1f} ms  {row['ratio']:5.2f} x none{memory}", flush=True)
    if args.out is not None:
        stem = args.out / "_".join(["points", device, args.cpe, *["train"] * args.train, *["bf16"] * args.amp])
        ratios = {title: {name: row["ratio"] for name, row in rows.items()}}
        write(stem, device, dict(title=title, rows=rows), ratios, "none")


if __name__ == "__main__":
    run(main)
