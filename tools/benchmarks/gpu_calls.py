"""The attention call from q, k and v alone, in rows of one length and of many: steps of tools/benchmarks/gpu.py."""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ndformer.encodings.pape import concat_features, linear_coefficients, quadratic_coefficients
from ndformer.framework.bias.parabolas import IsotropicBias, QuadraticBias
from ndformer.framework.kernels import attend
from ndformer.framework.tokens import Where
from tools.benchmarks.attention import image
from tools.benchmarks.gpu_timing import Bench, Call, Measure, both_ways

HEADS, WIDTH, M = 12, 64, 50  # of ViT-B; parabolas of PaPE
BASES = ["no encoding, cudnn", "no encoding, flash", "no encoding, sdpa"]


def with_gradients(call: Call, inputs: list[Tensor], train: bool) -> Call:
    """The call alone, or followed by its backward pass into `inputs`."""

    def forward() -> Tensor:
        with torch.set_grad_enabled(train):
            return call()

    return (lambda: torch.autograd.grad((y := forward()), inputs, torch.ones_like(y))) if train else forward


def attention_call(bench: Bench, sizes: list[tuple[int, int]], dtype: torch.dtype) -> Measure:
    cases = {}
    for tokens, batch in [(17, 2)] if bench.dry else sizes:
        for train in (False, True):
            name = str(bench.dtype if bench.dry else dtype).removeprefix("torch.")
            case = f"attention call, {tokens} tokens x {batch}, {name}, {both_ways(train)}"
            rows = attention_rows(bench, tokens, batch, bench.dtype if bench.dry else dtype, train)
            cases[case] = bench.warm_up(case, rows)

    def measure() -> None:
        for case, calls in cases.items():
            bench.compare(case, calls, BASES)

    return measure


def attention_rows(bench: Bench, tokens: int, batch: int, dtype: torch.dtype, train: bool) -> dict[str, Call]:
    where = image(math.isqrt(tokens - 1), bench.device)
    q, k, v = (random(bench, batch, HEADS, tokens, WIDTH, dtype=dtype, train=train) for _ in range(3))
    a, b, wp, matrix, vector = parabolas(bench, batch, where, train)
    a, b = (t.to(dtype).requires_grad_(train) for t in (a, b))

    def sdpa(kernel: SDPBackend | None = None) -> Tensor:
        with contextlib.nullcontext() if kernel is None else sdpa_kernel(kernel):
            return F.scaled_dot_product_attention(q, k, v)

    def biased(backend: str, kind: str) -> Tensor:
        bias: Any = None
        if kind == "parabola":
            bias = QuadraticBias(matrix.unbind(0), vector.unbind(0), where.positions)
        elif kind == "isotropic":
            bias = IsotropicBias(matrix[0], where.positions)
        return attend(q, k, v, where, bias, backend=backend)

    def concat() -> Tensor:
        fq, fk = concat_features(a, b, wp.to(dtype), where.positions.to(dtype))
        qw, kw = torch.cat([q, fq], -1), torch.cat([k, fk.expand(*k.shape[:3], -1)], -1)
        vw = F.pad(v, (0, qw.shape[-1] - WIDTH))
        return F.scaled_dot_product_attention(qw, kw, vw, scale=WIDTH**-0.5)[..., :WIDTH]

    qkv = [q, k, v]
    learned = {"none": qkv, "parabola": [*qkv, matrix, vector], "isotropic": [*qkv, matrix]}
    titles = {"none": "no encoding", "parabola": "PaPE", "isotropic": "PaPERI"}
    rows: dict[str, tuple[Call, list[Tensor]]] = {
        "no encoding, sdpa": (sdpa, qkv),
        "no encoding, flash": (functools.partial(sdpa, SDPBackend.FLASH_ATTENTION), qkv),
        "PaPE, paper_concat": (concat, [*qkv, a, b]),
    }
    if not bench.dry:
        rows["no encoding, cudnn"] = functools.partial(sdpa, SDPBackend.CUDNN_ATTENTION), qkv
    pairs = [("fused", "none"), ("fused", "parabola"), ("fused", "isotropic")]
    pairs += [] if bench.dry else [("flex", "none"), ("flex", "parabola")]  # flex has no gradients on a CPU
    if batch * HEADS * tokens**2 <= 2**28:  # some ten tensors of that size, in float32
        pairs += [("sdpa", "parabola")]
    for backend, kind in pairs:
        rows[f"{titles[kind]}, {backend}"] = functools.partial(biased, backend, kind), learned[kind]
    return {row: with_gradients(call, inputs, train) for row, (call, inputs) in rows.items()}


def random(bench: Bench, *shape: int, dtype: torch.dtype, train: bool) -> Tensor:
    return torch.randn(*shape, device=bench.device, dtype=dtype).requires_grad_(train)


def parabolas(bench: Bench, batch: int, where: Where, train: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Random a, b and wp of PaPE, and the quadratic forms and vectors that they are summed to."""
    P, N = where.positions.shape[-1], where.positions.shape[1]
    a = -F.softplus(torch.randn(HEADS, M, batch, N, device=bench.device))
    b = torch.randn(HEADS, M, batch, N, device=bench.device)
    wp = torch.empty(HEADS, M, P, device=bench.device).uniform_(-(P**-0.5), P**-0.5)
    matrix, vector = quadratic_coefficients(a, wp, WIDTH), linear_coefficients(b, wp, WIDTH)
    return a, b, wp, matrix.requires_grad_(train), vector.requires_grad_(train)


def packed_rows(bench: Bench) -> Measure:
    """Samples of 64 to 576 tokens: packed into one row, or padded to the longest."""
    lengths = torch.randint(3, 7, (3,)) if bench.dry else torch.randint(64, 577, (64,))
    total, longest = int(lengths.sum()), int(lengths.max())
    segment = torch.repeat_interleave(torch.arange(len(lengths)), lengths)[None].to(bench.device)
    valid = (torch.arange(longest) < lengths[:, None]).to(bench.device)
    positions = functools.partial(torch.rand, device=bench.device)
    packed = Where(24 * positions(1, total, 2), segment=segment)
    padded = Where(24 * positions(len(lengths), longest, 2), valid=valid)
    bounds = F.pad(lengths.cumsum(0), (1, 0)).to(bench.device, torch.int32)
    cases = {}
    for train in (False, True):
        case = f"{len(lengths)} samples of {int(lengths.min())} to {longest} tokens, {both_ways(train)}"
        rows = {}
        for layout, where in (("packed", packed), ("padded", padded)):
            B, N = where.positions.shape[:2]
            q, k, v = (random(bench, B, HEADS, N, WIDTH, dtype=bench.dtype, train=train) for _ in range(3))
            *_, matrix, vector = parabolas(bench, B, where, train)

            def pape(backend: str, q=q, k=k, v=v, where=where, matrix=matrix, vector=vector) -> Tensor:
                bias = QuadraticBias(matrix.unbind(0), vector.unbind(0), where.positions)
                return attend(q, k, v, where, bias, backend=backend)

            def plain(backend: str, q=q, k=k, v=v, where=where) -> Tensor:
                return attend(q, k, v, where, None, backend=backend)

            other = "sdpa" if layout == "padded" or bench.dry else "flex"  # flex has no gradients on a CPU
            for backend in ("fused", other):
                calls = {"no encoding": (plain, [q, k, v]), "PaPE": (pape, [q, k, v, matrix, vector])}
                for title, (call, inputs) in calls.items():
                    one_call = functools.partial(call, backend)
                    rows[f"{title}, {backend}, {layout}"] = with_gradients(one_call, inputs, train)
        if not bench.dry:  # for CUDA alone
            with bench.attempt(case, "no encoding, varlen_attn"):
                from torch.nn.attention.varlen import varlen_attn

                flat = [random(bench, total, HEADS, WIDTH, dtype=bench.dtype, train=train) for _ in range(3)]
                varlen = functools.partial(varlen_attn, *flat, bounds, bounds, longest, longest)
                rows["no encoding, varlen_attn"] = with_gradients(varlen, flat, train)
        cases[case] = bench.warm_up(case, rows)

    def measure() -> None:
        for case, calls in cases.items():
            bench.compare(case, calls, ["no encoding, varlen_attn", "no encoding, sdpa, padded"])

    return measure
