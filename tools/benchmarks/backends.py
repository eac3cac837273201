#!/usr/bin/env python
"""Measure whether `auto` selects the fastest attention backend on this CPU, over 20 shapes.

    ndformer benchmarks/backends                    every shape, forward and with gradients
    ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 NUMBA_CPU_NAME=haswell ndformer benchmarks/backends

One thread, float32, processor time, with the computation of the bias, whose gradients belong to a training step. The
backends of a shape run in turn in each round, so that a busy machine affects all equally. The last column is the time
of the backend that `auto` selects, divided by that of the fastest.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ndformer.cli.program import new_parser, run
from ndformer.framework.attention import build_encoding
from ndformer.framework.bias.base import Bias
from ndformer.framework.kernels import BACKENDS, attend
from ndformer.framework.kernels.choose import choose
from ndformer.framework.tokens import Where
from ndformer.tools.benchmarks.turns import in_turn

EXCLUDED = {"flex", "fused", "select"}  # references on a CPU, and an approximation


class Shape(NamedTuple):
    encoding: str
    rows: int
    heads: int
    tokens: int
    width: int  # channels of a head
    dims: int
    extent: float  # of the positions along each axis


SHAPES = [
    Shape("NoPE", 8, 12, 197, 64, 2, 14),
    Shape("NoPE", 1, 12, 1024, 64, 2, 32),
    Shape("ALiBi", 8, 12, 197, 64, 2, 14),
    Shape("ALiBi", 1, 12, 1024, 64, 2, 32),
    Shape("PaPE", 8, 12, 197, 64, 2, 14),
    Shape("PaPE", 1, 12, 1024, 64, 2, 16),
    Shape("PaPE", 1, 12, 1024, 64, 2, 64),
    Shape("PaPE", 16, 4, 64, 16, 2, 8),
    Shape("PaPE", 16, 4, 196, 16, 2, 14),
    Shape("PaPE", 16, 4, 196, 16, 2, 56),
    Shape("PaPE", 4, 4, 1024, 16, 3, 8),
    Shape("PaPE", 4, 4, 1024, 16, 3, 200),
    Shape("PaPE", 32, 8, 36, 16, 2, 6),
    Shape("PaPE", 32, 8, 36, 16, 2, 60),
    Shape("PaPE", 32, 8, 90, 16, 2, 60),
    Shape("PaPE", 8, 4, 300, 32, 3, 8),
    Shape("PaPE", 8, 4, 300, 32, 3, 100),
    Shape("PaPERI", 4, 4, 1024, 16, 3, 8),
    Shape("PaPERI", 4, 4, 1024, 16, 3, 200),
    Shape("PaPERI", 8, 12, 197, 64, 2, 14),
]


Call = tuple[Tensor, Tensor, Tensor, Where, Bias | None]


def attention_call(shape: Shape, train: bool) -> tuple[list[Tensor], Callable[[], Call]]:
    """Return the inputs of a layer, q, k, v and x, and a function that returns those of attend()."""
    torch.manual_seed(0)
    B, H, N, h = shape.rows, shape.heads, shape.tokens, shape.width
    where = Where(torch.rand(B, N, shape.dims) * shape.extent)
    cfg: dict[str, Any] = dict(type=shape.encoding)
    encoding = build_encoding(cfg, dim=H * h, heads=H, position_dims=shape.dims, depth=1)
    inputs = [t.requires_grad_(train) for t in (*torch.randn(3, B, H, N, h), torch.randn(B, N, H * h))]
    state, layer = encoding.prepare(where), encoding.layer(0, 1)

    def encoded() -> Call:
        q, k, v, x = inputs
        q, k, bias = layer(q, k, x, state)
        return q, k, v, where, bias

    return inputs, encoded


def measure(shape: Shape, train: bool, repeats: int) -> tuple[str, dict[str, float]]:
    """Return the backend that `auto` selects, and the median seconds of each backend."""
    inputs, encoded = attention_call(shape, train)
    with torch.set_grad_enabled(train):
        arguments = encoded()
        chosen = choose(*arguments).name
    names = [name for name, backend in BACKENDS.items() if name not in EXCLUDED and backend.serves(*arguments)]

    def call(backend: str) -> None:
        with torch.set_grad_enabled(train):
            q, k, v, where, bias = encoded()
            out = attend(q, k, v, where, bias, backend=backend)
        if train:
            torch.autograd.grad(out.sum(), inputs, allow_unused=True)

    seconds = in_turn({name: partial(call, name) for name in names}, repeats)
    return chosen, {name: statistics.median(times) for name, times in seconds.items()}


def main(arguments: Sequence[str] | None = None, shapes: Sequence[Shape] = tuple(SHAPES)) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    args: argparse.Namespace = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, ms; * is selected by `auto`")
    print("| encoding | rows x heads x tokens x channels | dims | extent | | dense | sdpa | narrow | auto / best |")
    print("|---|---|--:|--:|---|--:|--:|--:|--:|")
    for shape in shapes:
        for train in (False, True):
            chosen, seconds = measure(shape, train, args.repeats)
            cells = [f"{1e3 * seconds[n]:.1f}{'*' * (n == chosen)}" if n in seconds else "" for n in BACKENDS]
            cells = [cell for name, cell in zip(BACKENDS, cells) if name not in EXCLUDED]
            size = f"{shape.rows} x {shape.heads} x {shape.tokens} x {shape.width}"
            ratio = seconds[chosen] / min(seconds.values())
            mode = "with gradients" if train else "forward"
            row = [shape.encoding, size, str(shape.dims), f"{shape.extent:g}", mode, *cells, f"{ratio:.2f}"]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    run(main)
