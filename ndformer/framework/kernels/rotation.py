"""Rotation of channel pairs: operations of torch on a CPU and in compiled graphs, one Triton kernel on a GPU.

On an H100 a ViT-B training step with AxialRoPE took 1.66 times as long as without positions by operations, and 1.27 by
the kernel, which reads x once and writes it once. It rounds as the operations do, so both give the same bits. In Point
Transformer V3, whose calls are small, the kernel was slower (1.6 for 1.3 forward).
"""

import importlib.util

import torch
from torch import Tensor

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
FEWEST = 2**22  # elements of x: with fewer, the host takes as long to start one custom operator as a dozen operations
TRITON = importlib.util.find_spec("triton") is not None


def rotate(x: Tensor, cos: Tensor, sin: Tensor, halves: bool = False) -> Tensor:
    """Rotate channel pairs of x (B, H, N, h) by angles whose cosines and sines are (B or 1, H or 1, N, pairs).

    Pairs are channels (0, 1), (2, 3) ... or, with `halves`, (i, i + pairs); channels after the last pair stay."""
    fits = x.device.type == "cuda" and x.dtype in DTYPES and cos.dtype == torch.float32 and TRITON
    if fits and x.numel() >= FEWEST and x.stride(-1) == 1 and not torch.compiler.is_compiling():
        return rotate_fused(x, cos, sin, halves, False)
    return rotate_by_operations(x, cos, sin, halves)


def rotate_by_operations(x: Tensor, cos: Tensor, sin: Tensor, halves: bool) -> Tensor:
    pairs = cos.shape[-1]
    turned, rest = x[..., : 2 * pairs].to(cos.dtype), x[..., 2 * pairs :]
    if halves:
        a, b = turned[..., :pairs], turned[..., pairs:]
        turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    else:
        turned = turned * cos.repeat_interleave(2, -1) + rotate_every_two(turned) * sin.repeat_interleave(2, -1)
    return torch.cat([turned.to(x.dtype), rest], dim=-1)


def rotate_every_two(x: Tensor) -> Tensor:
    """Replace each pair (a, b) of neighboring channels by (-b, a)."""
    return torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)


@torch.library.custom_op("ndformer::rotate", mutates_args=())
def rotate_fused(x: Tensor, cos: Tensor, sin: Tensor, halves: bool, back: bool) -> Tensor:
    """Rotate pairs of channels in one kernel; `back` rotates by the opposite angles, which is the gradient of x."""
    return rotate_by_operations(x, cos, -sin if back else sin, halves)


@rotate_fused.register_fake
def _(x, cos, sin, halves, back):
    return x.new_empty(x.shape)


@rotate_fused.register_kernel("cuda")
def _(x, cos, sin, halves, back):
    from ndformer.framework.kernels import rotation_triton

    return rotation_triton.launch(x, cos, sin, halves, back)


def _save(ctx, inputs, output):
    x, cos, sin, ctx.halves, ctx.back = inputs
    learned = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
    ctx.save_for_backward(cos, sin, *[x] * learned)


def _gradients(ctx, d_out):
    cos, sin, *x = ctx.saved_tensors
    d_out = d_out if d_out.stride(-1) == 1 else d_out.contiguous()
    d_x = rotate_fused(d_out, cos, sin, ctx.halves, not ctx.back)
    if not x:
        return d_x, None, None, None, None
    (a, b), (d_a, d_b) = (_pairs(t.to(cos.dtype), cos.shape[-1], ctx.halves) for t in (x[0], d_out))
    d_cos, d_sin = a * d_a + b * d_b, a * d_b - b * d_a
    return d_x, d_cos.sum_to_size(cos.shape), (-d_sin if ctx.back else d_sin).sum_to_size(sin.shape), None, None


def _pairs(x: Tensor, pairs: int, halves: bool) -> tuple[Tensor, Tensor]:
    turned = x[..., : 2 * pairs]
    return (turned[..., :pairs], turned[..., pairs:]) if halves else (turned[..., ::2], turned[..., 1::2])


rotate_fused.register_autograd(_gradients, setup_context=_save)
