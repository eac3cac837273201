"""The custom operator ndformer::attention: attention with a bias from positions and from numbers of each query.

q, k and v stay at the width of a head. A bias is a `kind` and `forms`, F numbers for each query and head:

    none          F = 0
    parabola      the P(P+1)/2 upper entries of M, then the P of c: dr' M dr + c' dr      (PaPE, PaPECompact)
    isotropic     alpha                                             alpha |dr|^2          (PaPE-RI)
    distance      slope                                             -slope |dr|           (ALiBi)
    power         a, p                                              -a |dr|^p             (KERPLE, BAM)
    logarithm     a, p                                              -p log(1 + a |dr|)    (KERPLE)
    gaussian      width                                             -(|dr| / width)^2 / 2

with dr = r_j - r_i. Pairs with an unplaced token get none. Gradients go to q, k, v and to the forms; a number that all
queries share is expanded, and torch sums its gradient.

On a CPU it is the reference, in float32 or float64; on a GPU the kernels of fused_triton.py.
"""

import torch
from torch import Tensor

from ndformer.framework.kernels import fused_reference as reference

# Tokens last, for kernels that read many of them side by side:
#   q, k, v (B, H, N, h)   forms (B, H, F, N)   places (B or 1, P, N)   placed (B or 1, N)
#   spans (B or 1, 2, N) int32, the first key that a token may see and the one after the last; padding: -1 and 0.
#   Tokens see each other where their spans begin together, so spans of a row do not overlap.


@torch.library.custom_op("ndformer::attention", mutates_args=())
def attention(
    q: Tensor, k: Tensor, v: Tensor, forms: Tensor | None, places: Tensor | None, placed: Tensor | None,
    spans: Tensor | None, kind: str, scale: float, learning: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return softmax(q k' scale + bias) v over the keys in each query's span, and tensors for its gradients.

    The output is (B, H, N, h), 0 for padding; the log-sum-exp is (B, H, N) in float32 or finer; the last tensor is the
    rounding error of an output in 16 bits, or empty where gradients do not need it or `learning` is False."""
    return reference.forward(q, k, v, reference.Bias(forms, places, placed, spans, kind), scale, learning)


@attention.register_fake
def _(q, k, v, forms, places, placed, spans, kind, scale, learning):
    lse = q.new_empty(q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32))
    return reference.empty_like(q), lse, reference.empty_residual(q, places, learning)


@torch.library.custom_op("ndformer::attention_backward", mutates_args=())
def attention_backward(
    q: Tensor, k: Tensor, v: Tensor, forms: Tensor | None, places: Tensor | None, placed: Tensor | None,
    spans: Tensor | None, out: Tensor, lse: Tensor, residual: Tensor, d_out: Tensor, d_lse: Tensor,
    kind: str, scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of q, k, v and the forms; the last is empty without forms."""
    bias = reference.Bias(forms, places, placed, spans, kind)
    return reference.backward(q, k, v, bias, out, lse, residual, d_out, d_lse, scale)


@attention_backward.register_fake
def _(q, k, v, forms, places, placed, spans, out, lse, residual, d_out, d_lse, kind, scale):
    d_forms = lse.new_empty(0) if forms is None else forms.new_empty(forms.shape)
    return *map(reference.empty_like, (q, k, v)), d_forms


@attention.register_kernel("cuda")
def _(q, k, v, forms, places, placed, spans, kind, scale, learning):
    from ndformer.framework.kernels import fused_launch

    return fused_launch.forward(q, k, v, reference.Bias(forms, places, placed, spans, kind), scale, learning)


@attention_backward.register_kernel("cuda")
def _(q, k, v, forms, places, placed, spans, out, lse, residual, d_out, d_lse, kind, scale):
    from ndformer.framework.kernels import fused_launch

    bias = reference.Bias(forms, places, placed, spans, kind)
    return fused_launch.backward(q, k, v, bias, out, lse, residual, d_out, d_lse, scale)


def _save(ctx, inputs, output):
    *tensors, ctx.kind, ctx.scale, _ = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[2])


def _gradients(ctx, d_out, d_lse, _):
    saved = ctx.saved_tensors
    dq, dk, dv, d_forms = attention_backward(*saved, d_out, d_lse, ctx.kind, ctx.scale)
    return dq, dk, dv, None if ctx.kind == "none" else d_forms, *[None] * 6


attention.register_autograd(_gradients, setup_context=_save)
