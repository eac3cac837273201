"""The steps of tools/benchmarks/gpu.py, which starts each in a process of its own.

A step is a function that builds and compiles what it needs and returns a function that measures it.
"""

from __future__ import annotations

import functools
import math
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import ndformer
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from tools.benchmarks.attention import image
from tools.benchmarks.gpu_calls import HEADS, WIDTH, attention_call, packed_rows
from tools.benchmarks.gpu_timing import Bench, Call, Measure, both_ways
from tools.benchmarks.gpu_training import training
from tools.benchmarks.mixed_sizes import count_tokens, measured, ndformer_forward, rectangles_and_squares
from tools.benchmarks.points import surface
from tools.benchmarks.turns import model_call

SIZES = [(197, 64), (1025, 16), (4097, 4)]  # tokens with a class token, batch


# --------------------------------------------------------------------------------------------------- the machine


def environment(bench: Bench) -> Measure:
    """Versions, and two limits of the hardware: a large matrix product and a copy."""
    versions = dict(ndformer=ndformer.__version__, torch=torch.__version__, python=platform.python_version())
    if not bench.dry:
        versions |= dict(device=torch.cuda.get_device_name(), cudnn=str(torch.backends.cudnn.version()))
    bench.record("environment", **versions, date=time.strftime("%Y-%m-%d"))

    def measure() -> None:
        size = 64 if bench.dry else 8192
        for dtype in (torch.bfloat16, torch.float32):
            a, b = torch.randn(2, size, size, device=bench.device, dtype=dtype)
            ms = bench.measure(lambda a=a, b=b: a @ b, 150)["ms"]
            bench.record(f"matrix product, {size} x {size}", str(dtype), ms=ms, tflops=2e-9 * size**3 / ms)
        source = torch.randn(2**10 if bench.dry else 2**30, device=bench.device)  # 4 GiB
        copy = torch.empty_like(source)
        ms = bench.measure(lambda: copy.copy_(source), 150)["ms"]
        bench.record("copy of 4 GiB", ms=ms, tb_per_s=2e-9 * source.nbytes / ms)

    return measure


# ------------------------------------------------------------------------------------------------------- models


def transformer(bench: Bench, encoding: str, backend: str, depth: int) -> Transformer:
    torch.manual_seed(0)
    dim = 48 if bench.dry else HEADS * WIDTH
    return Transformer(dim, depth, HEADS, 2, parse_encoding(encoding), backend=backend).to(bench.device)


def block(bench: Bench) -> Measure:
    """A ViT-B block with each encoding under autocast, called as usual, and replayed as a CUDA graph."""
    encodings = ["NoPE", "AxialRoPE", "RoPEMixed", "PaPE", "PaPERI", "ALiBi", "PaPE(impl='paper_concat')"]
    models = {name: transformer(bench, name, "auto", 1) for name in encodings}
    models["RelativeBias, sdpa"] = transformer(bench, "RelativeBias", "sdpa", 1)
    cases = {}
    for tokens, batch in [(17, 2)] if bench.dry else SIZES:
        where = image(math.isqrt(tokens - 1), bench.device)
        x = torch.randn(batch, tokens, 48 if bench.dry else HEADS * WIDTH, device=bench.device)
        for train in (False, True):
            case = f"ViT-B block, {tokens} tokens x {batch}, {both_ways(train)}"
            calls = {name: model_call(model, TokenSet(x, where), train, amp=True) for name, model in models.items()}
            cases[case] = bench.warm_up(case, calls)

    def measure() -> None:
        for case, calls in cases.items():
            bench.compare(case, calls, ["NoPE"])
        for case, calls in ({} if bench.dry else cases).items():
            graphs = {}
            for name in ("NoPE", "AxialRoPE", "PaPE", "PaPERI", "ALiBi"):  # a failed capture could harm those after it
                with bench.attempt(f"{case}, CUDA graph", name):
                    graphs[name] = cuda_graph(calls[name])
            bench.compare(f"{case}, CUDA graph", graphs, ["NoPE"])

    return measure


def cuda_graph(call: Call) -> Call:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def vit(bench: Bench, compiled: bool) -> Measure:
    """A training step of ViT-B/16 at 224 px: cross-entropy, AdamW, autocast."""
    encodings = ["NoPE", "AxialRoPE", "PaPE", "PaPERI", "ALiBi", "PaPE(impl='paper_concat')"]
    encodings = ["NoPE", "PaPE"] if compiled else encodings
    batch = 2 if bench.dry else 128
    case = f"ViT-B training step, 197 tokens x {batch}{', compiled' if compiled else ''}"
    steps = {name: vit_step(bench, name, batch, compiled and not bench.dry) for name in encodings}
    calls = bench.warm_up(case, steps)

    def measure() -> None:
        bench.compare(case, calls, ["NoPE"], 1500)
        with bench.attempt(case, "PaPE"):
            bench.profile(case, "PaPE", calls["PaPE"])

    return measure


def vit_step(bench: Bench, encoding: str, batch: int, compiled: bool) -> Call:
    model = transformer(bench, encoding, "auto", 1 if bench.dry else 12)
    dim, side = model.dim, 2 if bench.dry else 14
    stem, head = (layer.to(bench.device) for layer in (torch.nn.Conv2d(3, dim, 16, 16), torch.nn.Linear(dim, 1000)))
    class_token = torch.nn.Parameter(torch.zeros(1, 1, dim, device=bench.device))
    parameters = [*model.parameters(), *stem.parameters(), *head.parameters(), class_token]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.05, fused=True)
    images = torch.randn(batch, 3, side * 16, side * 16, device=bench.device)
    labels = torch.randint(1000, (batch,), device=bench.device)
    where = image(side, bench.device)
    if compiled:
        model.compile()

    def step() -> None:
        with torch.autocast(bench.device, torch.bfloat16):
            x = stem(images).flatten(2).transpose(1, 2).float()
            x = torch.cat([class_token.expand(batch, -1, -1), x], 1)
            loss = F.cross_entropy(head(model(TokenSet(x, where)).features[:, 0]), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def points(bench: Bench) -> Measure:
    """Point Transformer V3 of ScanNet's size over 110,000 points of a surface, one of each voxel."""
    r = surface(300 if bench.dry else 110_000).to(bench.device)
    tokens = TokenSet(torch.randn(1, len(r), 6, device=bench.device), Where(r[None]))
    small: dict[str, Any] = dict(enc_depths=(1, 1), enc_channels=(16, 32), enc_heads=(1, 2), dec_depths=(1,))
    small |= dict(dec_channels=(16,), dec_heads=(1,), window=64)
    cases = {f"PTv3, {len(r)} voxels, {both_ways(train)}": train for train in (False, True)}
    models = {}
    rows = [("no encoding", None, "auto"), ("AxialRoPE", "AxialRoPE", "auto"), ("PaPE", "PaPE", "auto")]
    for row, encoding, backend in [*rows, ("RelativeBias, sdpa", "RelativeBias", "sdpa")]:
        torch.manual_seed(0)
        cfg = None if encoding is None else parse_encoding(encoding)
        options = small if bench.dry else {}
        models[row] = PTv3(encoding=cfg, cpe="none", backend=backend, **options).to(bench.device)
    calls = {}
    for case, train in cases.items():
        of_case = {row: model_call(model, tokens, train, amp=True) for row, model in models.items()}
        calls[case] = bench.warm_up(case, of_case)

    def measure() -> None:
        for case in cases:
            bench.compare(case, calls[case], ["no encoding"], 1000)
        last_case = list(cases)[-1]
        for row in () if bench.dry else ("no encoding", "PaPE"):  # seconds on a CPU
            with bench.attempt(last_case, row):
                bench.profile(last_case, row, calls[last_case][row])

    return measure


def mixed_sizes(bench: Bench) -> Measure:
    """A ViT-S under autocast on rectangles of many sizes, packed or padded, and on squares of as many tokens."""
    depth, count = (1, 3) if bench.dry else (12, 128)
    mixed, squares = rectangles_and_squares(count, bench.device)
    cases = {}
    for encoding in ["NoPE"] if bench.dry else ["NoPE", "AxialRoPE", "PaPE", "RelativeBias"]:
        forwards = {"squares": ndformer_forward(encoding, depth, True, squares, bench.device)}
        forwards["packed"] = ndformer_forward(encoding, depth, True, mixed, bench.device)
        forwards["padded"] = ndformer_forward(encoding, depth, False, mixed, bench.device)
        tokens = f"{count_tokens(mixed)} tokens in {count} images, {count_tokens(squares)} in {len(squares)} squares"
        for train in (False, True):
            case = f"ViT-S, {encoding}, {tokens}, {both_ways(train)}"
            calls = {row: amp_call(bench, measured(forward, train)) for row, forward in forwards.items()}
            cases[case] = bench.warm_up(case, calls)

    def measure() -> None:
        for case, calls in cases.items():
            bench.compare(case, calls, ["squares"], 300)

    return measure


def amp_call(bench: Bench, call: Call) -> Call:
    def with_autocast() -> None:
        with torch.autocast(bench.device, torch.bfloat16, enabled=not bench.dry):  # slow on a CPU
            call()

    return with_autocast


def tables(bench: Bench) -> Measure:
    """A ViT-B block with biases that the fused kernels do not serve: which backend is fastest?"""
    backends = ["auto", "sdpa", "dense", *([] if bench.dry else ["flex"])]  # flex has no gradients on a CPU
    cases = {}
    for tokens, batch in [(17, 2)] if bench.dry else SIZES[:2]:
        where = image(math.isqrt(tokens - 1), bench.device)
        x = torch.randn(batch, tokens, 48 if bench.dry else HEADS * WIDTH, device=bench.device)
        for name in ("RelativeBias", "LookHere"):
            for train in (False, True):
                case = f"ViT-B block, {name}, {tokens} tokens x {batch}, {both_ways(train)}"
                of_case = {"NoPE": transformer(bench, "NoPE", "auto", 1)}
                of_case |= {backend: transformer(bench, name, backend, 1) for backend in backends}
                calls = {row: model_call(model, TokenSet(x, where), train, amp=True) for row, model in of_case.items()}
                cases[case] = bench.warm_up(case, calls)

    def measure() -> None:
        for case, calls in cases.items():
            bench.compare(case, calls, ["NoPE"], 100)

    return measure


def memory(bench: Bench) -> Measure:
    """Peak memory and time of a ViT-B block, forward and backward, for one sample of ever more tokens."""
    rows = [("NoPE", "auto"), ("PaPE", "auto"), ("PaPE(impl='paper_concat')", "auto"), ("PaPE", "sdpa")]
    rows += [] if bench.dry else [("PaPE", "flex")]

    def call(model: Transformer, tokens: int) -> Call:
        x = torch.randn(1, tokens, model.dim, device=bench.device, requires_grad=True)
        where = image(math.isqrt(tokens - 1), bench.device)
        return model_call(model, TokenSet(x, where), train=True, amp=True)

    models = {f"{name}, {backend}": transformer(bench, name, backend, 1) for name, backend in rows}
    bench.warm_up("memory", {row: call(model, 17 if bench.dry else 1025) for row, model in models.items()})

    def measure() -> None:
        for row, model in models.items():
            for tokens in (17, 26) if bench.dry else (1025, 4097, 16385, 32401, 65026):  # squares, and a class token
                with bench.attempt(f"memory, {tokens} tokens", row):
                    one_call = call(model, tokens)
                    peak = bench.peak_mib(one_call)
                    begin = time.perf_counter()
                    one_call()
                    bench.wait()
                    ms = 1e3 * (time.perf_counter() - begin)
                    bench.record(f"memory, {tokens} tokens", row, peak_mib=peak, ms=ms)

    return measure


STEPS: dict[str, Callable[[Bench], Measure]] = {
    "environment": environment,
    "call": functools.partial(attention_call, sizes=SIZES, dtype=torch.bfloat16),
    "call_float32": functools.partial(attention_call, sizes=[(1025, 8)], dtype=torch.float32),
    "block": block,
    "vit": functools.partial(vit, compiled=False),
    "vit_compiled": functools.partial(vit, compiled=True),
    "points": points,
    "packed": packed_rows,
    "mixed_sizes": mixed_sizes,
    "tables": tables,
    "memory": memory,
    "train_modelnet40": functools.partial(training, config="modelnet40_pape"),
    "train_coco": functools.partial(training, config="coco_pape"),
}


def run_step(name: str, folder: Path, dry: bool, begin: Callable[[], object] = lambda: None) -> None:
    """Warm up, call `begin` (which may wait for a turn), and measure. Exit with 1 after an error of the whole step."""
    bench = Bench(name, folder, dry)
    with bench.attempt(f"step {name}"):
        measure = STEPS[name](bench)
        begin()
        measure()
        return
    sys.exit(1)


def wait_for_turn() -> None:
    print("READY", flush=True)
    if not sys.stdin.readline():  # the conductor has ended
        sys.exit()


def main() -> None:
    """Run a step: its name, the folder for figures, and --dry are the arguments of the process."""
    run_step(sys.argv[1], Path(sys.argv[2]), "--dry" in sys.argv, wait_for_turn)
