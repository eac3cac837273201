#!/usr/bin/env python
"""Measure attention with key selection (backend "select") against attention over all keys.

    ndformer benchmarks/selection
    ndformer benchmarks/selection --sides 32 64 128 --radii 2

PaPE on a grid of patches, heads of 64 channels, one thread, float32. All backends run in one process, one after the
other in every round; processor time, medians. The ratio is to the fastest exact backend of each round. Beside it, how
many pairs were computed, and the error, of the largest value, against float64.
"""

import argparse
import statistics
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import ndformer.framework.kernels.select as select
from ndformer.cli.program import new_parser, run
from ndformer.framework.attention import build_encoding
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.kernels import BACKENDS, attend
from ndformer.framework.tokens import Where
from ndformer.tools.benchmarks.turns import in_turn


def main(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for side in args.sides:
        for radius in args.radii:
            measure(side, radius, args)


def measure(side: int, radius: float, args: argparse.Namespace) -> None:
    torch.manual_seed(0)
    axis, dim = torch.arange(float(side)), args.heads * args.width
    where = Where(torch.cartesian_prod(axis, axis)[None], grid=(side, side))
    cfg = dict(type="PaPE", init_radius=radius)
    encoding = build_encoding(cfg, dim=dim, heads=args.heads, position_dims=2, depth=1)
    x = F.layer_norm(torch.randn(1, side**2, dim), (dim,))
    qkv = torch.nn.Linear(dim, 3 * dim)(x).detach().unflatten(-1, (3, args.heads, -1)).permute(2, 0, 3, 1, 4)
    with torch.no_grad():
        bias = encoding.layer(0, 1)(qkv[0], qkv[1], x, encoding.prepare(where))[2]
    assert isinstance(bias, QuadraticBias)
    assert bias.M is not None
    assert bias.c is not None
    given = [*qkv.unbind(0), *bias.M, *bias.c]

    def forward(backend: str) -> Tensor:
        with torch.no_grad():
            return attend(qkv[0], qkv[1], qkv[2], where, bias, backend=backend)

    def both(backend: str) -> None:
        leaves = [t.clone().requires_grad_() for t in given]
        learned = QuadraticBias(leaves[3:6], leaves[6:], torch.stack(bias.axes, -1), bias.local)
        out = attend(leaves[0], leaves[1], leaves[2], where, learned, backend=backend)
        torch.autograd.grad(out.sum(), leaves)

    exact = Where(where.positions.double())
    fine = QuadraticBias([m.double() for m in bias.M], [c.double() for c in bias.c], exact.positions)
    double = qkv.double()
    exact_output = attend(double[0], double[1], double[2], exact, fine, backend="dense")
    error = (forward(args.backend) - exact_output).abs().max() / qkv[2].abs().max()
    shares, judge = [], select.relevant_blocks
    select.relevant_blocks = lambda *rows: shares.append(judge(*rows)) or shares[-1]
    forward(args.backend)
    select.relevant_blocks = judge
    share = sum(seen.float().mean().item() for seen in shares) / len(shares)
    print(f"\n{side} x {side} tokens, radius {radius:g}: {share:.0%} of the pairs, error {error:.1e}")
    narrow = ["narrow"] if BACKENDS["narrow"].serves(qkv[0], qkv[1], qkv[2], where, bias) else []
    for title, call, others in (("forward", forward, ["sdpa", *narrow]), ("forward and backward", both, ["sdpa"])):
        seconds = in_turn({name: partial(call, name) for name in [*others, args.backend]}, args.repeats)
        ratios = [min(rest) / ours for *rest, ours in zip(*seconds.values())]
        low, middle, high = statistics.quantiles(ratios, n=4)
        medians = ", ".join(f"{name} {statistics.median(times) * 1e3:.0f} ms" for name, times in seconds.items())
        print(f"  {title:<22} {middle:.2f} times as fast [{low:.2f}, {high:.2f}]   ({medians})")


def parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[64], help="of the square of tokens")
    parser.add_argument("--radii", type=float, nargs="+", default=[1.0, 2.0, 4.0], help="that attention starts with")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=64, help="channels of a head")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--backend", default="select", help="'select' or 'select:TOLERANCE'")
    return parser


if __name__ == "__main__":
    run(lambda: main(parser().parse_args()))
