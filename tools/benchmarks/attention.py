#!/usr/bin/env python
"""Time and memory of attention with positions, as ratios against the obvious alternative.

    ndformer benchmarks/attention attention
        the attention call from q, k, v, a, b: PaPE's forms against no position
    ndformer benchmarks/attention block
        a whole ViT-B block with each encoding against NoPE, both ways; --depth 12
    ndformer benchmarks/attention memory --backend dense --tokens 16385
        peak memory of a block with each encoding, both ways
    ndformer benchmarks/attention attention --amp           in bf16, also as ratios to flash attention

All variants run in one process, one after the other in every round, so that a busy machine slows them alike; the
figure is the median over rounds. A GPU's times are between two events, and its memory is what torch allocates. Prints a
table and writes NAME.json and NAME.png into --out.
"""

import argparse
import math
import statistics
import time
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ndformer.cli.program import new_parser, run
from ndformer.encodings.centered_positions import centered_positions
from ndformer.encodings.initial_radius import weight_sensitivity
from ndformer.encodings.pape import concat_features, linear_coefficients, quadratic_coefficients
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.kernels import attend
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from ndformer.tools.benchmarks.turns import Call, attention_arguments, in_turn, machine, model_call, peak_mib, write

ENCODINGS = [
    *["NoPE", "Sincos", "LearnableAbsolute", "LearnableSincos", "LearnableFourier", "LaPE", "PEMixer", "ObjectSincos"],
    *["LearnableMLP", "RotaryND(directions='simplex')"],
    *["CPE", "AxialRoPE", "RoPEMixed", "ALiBi", "DirectionalRPE", "LookHere", "RelativeBias", "Relative", "CoPE"],
    *["SaPE2", "PaPE", "PaPERI", "PaPECompact", "PaPEDirectional", "Polynomial", "RotaryND(directions='golden')"],
    *["RadialBias", "FIRE", "LogCPB", "STRING", "LieRE", "ComRoPE", "PoPE", "GRAPE", "GTA"],
    *["GTA(cameras=0.5)", "PRoPE"],
]


def image(side: int, device: str) -> Where:
    """side x side patches of four objects, a quarter each, and a class token: the places of all rows, in one camera."""
    axis = torch.arange(side, dtype=torch.float32, device=device)
    patches = torch.cartesian_prod(axis, axis)
    positions = torch.cat([patches.new_zeros(1, 2), patches])[None]
    placed = torch.arange(side * side + 1, device=device)[None] > 0
    half = (patches >= side / 2).long()
    quarters = 1 + 2 * half[:, 0] + half[:, 1]  # no product: CUDA has none for integers
    objects = torch.cat([quarters.new_zeros(1), quarters])[None]
    cameras = torch.eye(4, device=device).expand(1, len(positions[0]), 4, 4)  # what is computed is the same for others
    return Where(positions, placed=placed, grid=(side, side), objects=objects, cameras=cameras)


def table(title: str, seconds: dict[str, list[float]], base: str) -> dict[str, Any]:
    """Median and quartiles of each call as a ratio to `base` of the same round, printed and returned."""
    print(f"\n{title}   (1 = {base}, {statistics.median(seconds[base]) * 1e3:.2f} ms)")
    rows = {}
    for name, times in seconds.items():
        ratios = [t / b for t, b in zip(times, seconds[base])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        rows[name] = dict(ratio=middle, low=low, high=high, ms=statistics.median(times) * 1e3)
        print(f"  {name:<28} {middle:6.2f}   [{low:.2f}, {high:.2f}]")
    return dict(title=title, base=base, rounds=len(seconds[base]), rows=rows)


def attention(args: argparse.Namespace) -> list[dict[str, Any]]:
    """From q, k, v, a, b to the output, 12 heads of 64."""
    heads, width, dtype = 12, 64, torch.bfloat16 if args.amp else torch.float32
    results = []
    for tokens in args.tokens:
        side = math.isqrt(tokens - 1)
        where = image(side, args.device)
        torch.manual_seed(0)
        q, k, v = torch.randn(3, args.batch, heads, where.positions.shape[1], width, device=args.device, dtype=dtype)

        def quadratic(
            m: int, backend: str = args.backend, where: Where = where, q: Tensor = q, k: Tensor = k, v: Tensor = v
        ) -> Call:
            a, b, wp = parabolas(m, q)
            curvature = m * 0.7344 / 6 * width**-0.5

            def call() -> Tensor:
                positions, near = centered_positions(
                    where.positions, where, (1.0, 1.0), curvature, weight_sensitivity(curvature, m, width)
                )
                M, c = quadratic_coefficients(a, wp, width).unbind(0), linear_coefficients(b, wp, width).unbind(0)
                return attend(q, k, v, where, QuadraticBias(M, c, positions, near), backend=backend)

            return call

        coefficients = [t.to(dtype) for t in (*parabolas(50, q), where.positions)]
        calls: dict[str, Call] = {
            "no position": partial(F.scaled_dot_product_attention, q, k, v),
            "PaPE m=2": quadratic(2),
            "PaPE m=50": quadratic(50),
            "PaPE m=64": quadratic(64),
            "paper_concat m=50, flash": partial(paper_concat, q, k, v, *coefficients, flash=True),
            "paper_concat m=50, math": partial(paper_concat, q, k, v, *coefficients, flash=False),
        }
        bases = ["no position"]
        if args.amp:  # on a GPU, flash attention is for 16 bits
            calls["no position, flash"] = partial(flash_attention, q, k, v)
            bases += ["no position, flash"]
        if args.device == "cuda":
            calls["PaPE m=50, fused"] = quadratic(50, "fused")
        with torch.no_grad():
            seconds = in_turn(calls, args.repeats, args.device, time.perf_counter, warm=2)
        title = f"attention call, {where.positions.shape[1]} tokens"
        tables = [table(title, seconds, base) for base in bases]
        result = tables[0]
        faster = min("paper_concat m=50, flash", "paper_concat m=50, math", key=lambda n: result["rows"][n]["ratio"])
        result["speed-up over paper_concat"] = _ratio(seconds[faster], seconds["PaPE m=50"])
        result["m=64 over m=2"] = _ratio(seconds["PaPE m=64"], seconds["PaPE m=2"])
        for name in ("speed-up over paper_concat", "m=64 over m=2"):
            print(f"  {name:<28} {result[name]:6.2f}")
        results += tables
    return results


def parabolas(m: int, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return random a, b and wp of PaPE in float32."""
    B, heads, N, _ = q.shape
    a = -F.softplus(torch.randn(heads, m, B, N, device=q.device))
    b = torch.randn(heads, m, B, N, device=q.device)
    return a, b, torch.empty(heads, m, 2, device=q.device).uniform_(-(2**-0.5), 2**-0.5)


def paper_concat(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, wp: Tensor, positions: Tensor, flash: bool
) -> Tensor:
    width = v.shape[-1]
    fq, fk = concat_features(a, b, wp, positions)
    qw, kw = torch.cat([q, fq], dim=-1), torch.cat([k, fk.expand(*k.shape[:3], -1)], dim=-1)
    vw = F.pad(v, (0, qw.shape[-1] - width)) if flash else v
    return F.scaled_dot_product_attention(qw, kw, vw, scale=width**-0.5)[..., :width]


def flash_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v)


def _ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below))


def block(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Pre-norm blocks, 768 wide, 12 heads, MLP x 4, one or more, with prepare() for all of them."""
    called = "ViT-B block" if args.depth == 1 else f"{args.depth} ViT-B blocks"
    results = []
    for tokens in args.tokens:
        where = image(math.isqrt(tokens - 1), args.device)
        features = torch.randn(args.batch, where.positions.shape[1], 768, device=args.device)
        models = {}
        for name in args.encodings:
            torch.manual_seed(0)
            model = Transformer(768, args.depth, 12, 2, parse_encoding(name), backend=args.backend)
            models[name] = model.to(args.device)
        for title, train in (("forward", False), ("training step", True)):
            tokens = TokenSet(features, where)
            calls = {name: model_call(model, tokens, train, args.amp) for name, model in models.items()}
            seconds = in_turn(calls, args.repeats, args.device, time.perf_counter, warm=2)
            results.append(table(f"{called}, {features.shape[1]} tokens, {title}", seconds, args.encodings[0]))
    return results


def memory(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Peak memory of forward and backward of a block, 2 heads of 16, MLP x 4: MiB, by the allocator of a GPU, else the
    largest sum of live tensors, and how often a table of all pairs of tokens, for both heads in float32, would fit into
    that."""
    results = []
    for tokens in args.tokens:
        where = image(math.isqrt(tokens - 1), args.device)
        count = where.positions.shape[1]
        table = 2 * 4 * count**2 / 2**20
        print(f"\n{count} tokens: a table of all pairs is {table:.0f} MiB")
        rows = {}
        for name in args.encodings:
            torch.manual_seed(0)
            model = Transformer(32, 1, 2, 2, parse_encoding(name), backend=args.backend).to(args.device)
            x = torch.randn(1, count, 32, device=args.device, requires_grad=True)
            call = model_call(model, TokenSet(x, where), True, args.amp)
            if args.device == "cuda":
                call()  # compiles kernels and allocates workspaces
            start = time.perf_counter()
            peak = peak_mib(call) if args.device == "cuda" else live_mib(call)
            seconds = time.perf_counter() - start
            rows[name] = dict(ratio=peak, low=peak, high=peak, ms=seconds * 1e3, tables=peak / table)
            print(f"  {name:<20} {peak:8.1f} MiB   {peak / table:6.2f} tables   {seconds:6.1f} s", flush=True)
        results.append(dict(title=f"peak memory, {count} tokens, forward and backward, MiB", base="MiB", rows=rows))
    return results


def live_mib(call: Call) -> float:
    with LiveBytes() as live:
        call()
    return live.peak / 2**20


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that were created inside it and are alive; `peak` is the maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.counted: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.counted or size == 0:
            return
        self.counted.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)

        def release() -> None:
            self.counted.discard(key)
            self.now -= size

        weakref.finalize(storage, release)


def main(arguments: Sequence[str] | None = None) -> None:
    suites = dict(attention=attention, block=block, memory=memory)
    parser = new_parser(__doc__)
    parser.add_argument("suite", choices=suites)
    parser.add_argument("--tokens", type=int, nargs="+", default=[197, 1025], help="patches plus one class token")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--depth", type=int, default=1, help="blocks, of the block suite")
    attention_arguments(parser, repeats=15)
    parser.add_argument("--encodings", nargs="+", default=ENCODINGS, help="the first is the base")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args(arguments)
    print(f"{args.suite} on {machine(args.device)}, torch {torch.__version__}")
    results = suites[args.suite](args)
    charted = [result for result in results if result["base"] == results[0]["base"]]
    ratios = {result["title"]: {name: row["ratio"] for name, row in result["rows"].items()} for result in charted}
    values = dict(batch=args.batch, amp=args.amp, backend=args.backend, results=results)
    write(args.out / f"{args.suite}_{args.device}{'_bf16' * args.amp}", args.device, values, ratios, results[0]["base"])


if __name__ == "__main__":
    run(main)
