"""attend() and the choice between its backends."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.errors import nearest
from ndformer.framework.kernels.dense import dense
from ndformer.framework.kernels.flex import flex
from ndformer.framework.kernels.narrow import narrow, pays, served
from ndformer.framework.kernels.sdpa import sdpa
from ndformer.framework.tokens import Where

Backend = Callable[[Tensor, Tensor, Tensor, Where, Bias | None, float], Tensor]
# 'fused' will stand here; 'narrow' serves few cases
BACKENDS: dict[str, Backend] = {"dense": dense, "sdpa": sdpa, "flex": flex, "narrow": narrow}

MASK = 2**26  # elements of a bias that may be made whole: 256 MiB in float32


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    where: Where,
    bias: Bias | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Tensor:
    """softmax(q k' scale + bias) v over the keys that each query may see: (B, H, N, h) -> (B, H, N, width of v).

    The output is 0 for padding. All backends give the same numbers; 'auto' takes the fastest that can.
    """
    scale = 1 / math.sqrt(v.shape[-1]) if scale is None else scale  # v has the head's width, whatever rides on q
    if backend == "auto":
        backend = "narrow" if served(q, k, v, where, bias) and pays(q) else choose(q, where, bias)
    if backend not in BACKENDS:
        raise ValueError(
            f"no attention backend is called '{backend}'{nearest(backend, BACKENDS)} Known: auto, {', '.join(BACKENDS)}"
        )
    call = BACKENDS[backend]
    with torch.autocast(q.device.type, enabled=False):
        if where.cut is not None and where.batch == q.shape[0] and backend != "flex":
            out = by_rows(call, q, k, v, where, bias, scale)
        else:
            out = call(q, k, v, where, bias, scale)
    return out if where.valid is None else out.masked_fill(~where.valid[:, None, :, None], 0)


def choose(q: Tensor, where: Where, bias: Bias | None) -> str:
    B, H, N, _ = q.shape
    if q.device.type == "cuda" and q.dtype != torch.float64 and (bias is not None or where.segment is not None):
        return "flex" if bias is None or bias.pointwise else "dense"
    whole = bias is not None and not (bias.separable and q.dtype != torch.float64)
    if where.cut is not None and where.batch == B:
        logits = sum(rows.index.numel() * rows.index.shape[1] for rows, _ in where.cut) * H
    else:
        whole = whole or where.segment is not None
        logits = B * H * N * N
    return "dense" if whole and logits > MASK else "sdpa"


def by_rows(backend: Backend, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
    """Packed rows cut into one row per sample: no logit between samples is ever computed."""
    assert where.cut is not None
    B, H, N, _ = q.shape
    flat = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]  # (B N, H, h)
    total = q.new_zeros(B * N, H, v.shape[-1])
    for rows, place in where.cut:
        part = None if bias is None else bias.cut(rows)
        if bias is not None and part is None:  # a bias that knows only whole rows
            return backend(q, k, v, where, bias, scale)
        qr, kr, vr = (rows.gather(t).transpose(1, 2) for t in flat)  # (R, H, K, h)
        out = backend(qr, kr, vr, place, part, scale)
        total = total + rows.scatter(out.transpose(1, 2), B * N)
    return total.reshape(B, N, H, v.shape[-1]).transpose(1, 2)
