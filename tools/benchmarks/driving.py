#!/usr/bin/env python
"""Measure UniTR of the published size on one sample: six cameras of 704 x 256 pixels, and about 20,000 pillars.

    ndformer benchmarks/driving                       PaPE, forward
    ndformer benchmarks/driving --encodings none ALiBi --out docs/benchmarks      also as .json

The parts run in turn in each of `--repeats` rounds, and the median of each is printed: on a CPU processor time of one
thread, on a GPU the time between two events. `cut` is what finds the windows and sets of all eight layers, a share of
`blocks`. `ground` is the place of patches from above, for calibrations that were not met before. Memory is
the increase at the peak while pillars and patches are placed: of the process on a CPU, of torch's allocator on a GPU.
"""

import math
import resource
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ndformer.cli.program import new_parser, run
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.registry import BACKBONES
from ndformer.framework.tokens import TokenSet, join
from ndformer.modalities.driving.adapter import CameraPatches, Pillars
from ndformer.modalities.driving.models.unitr.network import UniTR
from ndformer.modalities.driving.models.unitr.places import SENSOR_PLANES, Flat
from ndformer.tools.benchmarks.turns import Call, attention_arguments, in_turn, model_call, write

SIZE, FOCAL, HEIGHT = (256, 704), 560.0, 1.6  # pixels, pixels, meters


def cameras() -> dict[str, Tensor]:
    """Six, looking around."""
    poses = torch.zeros(1, 6, 4, 4)
    for c in range(6):
        yaw = c * math.pi / 3
        poses[0, c, :, 2] = torch.tensor([math.cos(yaw), math.sin(yaw), 0, 0])
        poses[0, c, :, 0] = torch.tensor([math.sin(yaw), -math.cos(yaw), 0, 0])
        poses[0, c, :, 1] = torch.tensor([0, 0, -1.0, 0])
        poses[0, c, :, 3] = torch.tensor([0, 0, HEIGHT - 1.8, 1.0])
    lens = torch.tensor([[FOCAL, 0, SIZE[1] / 2], [0, FOCAL, SIZE[0] / 3], [0, 0, 1]])
    return dict(camera_to_lidar=poses, intrinsics=lens.expand(1, 6, 3, 3).clone())


def cloud(points: int) -> Tensor:
    """Return a random point cloud (N, 5) that is denser near the car."""
    g = torch.Generator().manual_seed(0)
    distance, turn = 54 * torch.rand(points, generator=g) ** 0.75, 2 * math.pi * torch.rand(points, generator=g)
    features = torch.rand(points, 3, generator=g) * torch.tensor([3.0, 255.0, 0.5]) - torch.tensor([2.0, 0, 0])
    return torch.cat([torch.stack([distance * turn.cos(), distance * turn.sin()], 1), features], 1)


def cut(net: UniTR, flat: Flat) -> None:
    """Assign tokens to the windows and sets of all blocks, without attention."""
    for k, kind in enumerate(net.kinds):
        for moved in (False, True):
            for name in SENSOR_PLANES if kind == "own" else (kind,):
                net.rows(name, flat, moved, 1 - k % 2)


def peak(device: str) -> int:
    """Return the peak memory of the process or of the GPU in bytes."""
    if device == "cpu":
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return torch.cuda.max_memory_allocated()


@torch.no_grad()
def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--encodings", nargs="+", default=["PaPE"])
    parser.add_argument("--points", type=int, default=25_000)
    attention_arguments(parser, repeats=5)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write driving_DEVICE.json there")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    inputs = {name: value.to(device) for name, value in cameras().items()}
    points, pictures = (
        cloud(args.points)[None].to(device),
        torch.zeros(1, 6, 3, *SIZE, dtype=torch.uint8, device=device),
    )
    torch.manual_seed(0)
    pillars, patches = Pillars(128).to(device).eval(), CameraPatches(128).to(device).eval()
    outputs: dict[str, Any] = {}

    def forget() -> None:
        patches.cached_positions.clear()
        outputs["patches"] = patches(pictures, **inputs)

    work: dict[str, Call] = {
        "pillars": lambda: outputs.update(pillars=pillars(points, **inputs)),
        "patches and ground": forget,
        "patches": lambda: patches(pictures, **inputs),
    }
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    before = peak(device)
    for one in work.values():
        one()
    mib = (peak(device) - before) / 2**20
    print(f"placing: {mib:.0f} MiB at most")
    tokens: TokenSet = join(outputs["pillars"], outputs["patches"])
    flat = Flat.from_tokens(tokens)
    for name in args.encodings:
        encoding = None if name == "none" else parse_encoding(name)
        build_encoding(cast(Any, encoding), dim=128, heads=8, position_dims=2, depth=8)  # refuse an unknown name early
        cfg = dict(type="UniTR", encoding=encoding, backend=args.backend)
        net: Any = BACKBONES.create(cfg).to(device).eval()
        blocks = model_call(net, tokens, train=False, amp=args.amp)
        work |= {f"blocks, {name}": blocks, "cut": lambda net=net: cut(net, flat)}
    times = in_turn(work, args.repeats, device, warm=0)
    sizes = dict(pillars=flat.pillars, patches=len(flat.index) - flat.pillars)
    found = {name: statistics.median(seconds) for name, seconds in times.items()}
    print(f"{sizes['pillars']} pillars, {sizes['patches']} patches, {device}")
    for name, middle in found.items():
        print(f"{name:22} {middle:8.3f} s")
    if args.out is not None:
        values = dict(**sizes, placing_mib=mib, seconds=found)
        write(args.out / f"driving_{device}{'_bf16' * args.amp}", device, values, {}, "")


if __name__ == "__main__":
    run(main)
