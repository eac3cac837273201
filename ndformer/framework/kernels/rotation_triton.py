"""The kernel of rotation.py: each program rotates all channels of some tokens of one head (Triton)."""

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

ELEMENTS = 4096  # of a program: 64 tokens with heads of 64 channels


@triton.jit
def kernel(
    x, cos, sin, out, x_step, out_step, table_step, H, N,
    PAIRS: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, HALVES: tl.constexpr, BACK: tl.constexpr,
    TOKENS: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(N, TOKENS)
    row, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    b, h = (row // H).to(tl.int64), row % H
    i, d = tile * TOKENS + tl.arange(0, TOKENS), tl.arange(0, D)
    if HALVES:
        first, pair = d < PAIRS, d % PAIRS
        other = tl.where(first, d + PAIRS, d - PAIRS)
    else:
        first, pair = d % 2 == 0, d // 2
        other = tl.where(first, d + 1, d - 1)
    here = (i < N)[:, None] & (d < WIDTH)[None, :]
    turned = (i < N)[:, None] & (d < 2 * PAIRS)[None, :]
    x += b * x_step[0] + h * x_step[1]
    token = i.to(tl.int64)[:, None]
    a = tl.load(x + token * x_step[2] + d[None, :], here, 0.0)
    partner = tl.load(x + token * x_step[2] + other[None, :], turned, 0.0).to(tl.float32)
    at = b * table_step[0] + h * table_step[1] + token * table_step[2] + pair[None, :] * table_step[3]
    c = tl.load(cos + at, turned, 1.0)
    s = tl.load(sin + at, turned, 0.0)
    s = tl.where(first[None, :] != BACK, -s, s)
    result = a.to(tl.float32) * c + partner * s
    out += b * out_step[0] + h * out_step[1]
    tl.store(out + token * out_step[2] + d[None, :], result.to(a.dtype), here)


def launch(x: Tensor, cos: Tensor, sin: Tensor, halves: bool, back: bool) -> Tensor:
    B, H, N, width = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    table = (B, H, N, cos.shape[-1])
    cos, sin = cos.expand(table), sin.expand(table)
    if cos.stride() != sin.stride():
        cos, sin = cos.contiguous(), sin.contiguous()
    D = triton.next_power_of_2(width)
    tokens = max(1, ELEMENTS // D)
    if out.numel():
        kernel[(B * H * triton.cdiv(N, tokens),)](  # pyright: ignore[reportIndexIssue]
            x, cos, sin, out, x.stride()[:3], out.stride()[:3], cos.stride(), H, N,
            PAIRS=cos.shape[-1], WIDTH=width, D=D, HALVES=halves, BACK=back, TOKENS=tokens,
            num_warps=8, enable_fp_fusion=False,
        )  # fmt: skip
    return out
