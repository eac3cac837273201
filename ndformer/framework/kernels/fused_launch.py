"""Launch the fused kernels: choose tiles and grids, and pass tensors with their strides."""

from typing import Any

import torch
import torch.nn.functional as F
import triton  # pyright: ignore[reportMissingImports]
from torch import Tensor

from ndformer.framework.kernels import fused_triton as kernels
from ndformer.framework.kernels.fused_reference import Bias, empty_like, empty_residual
from ndformer.framework.kernels.fused_variants import Variant, padded, variant

ALIGNED = 16  # rows of places begin at whole 16s, so that several numbers are read at once


def forward(q: Tensor, k: Tensor, v: Tensor, bias: Bias, scale: float, learning: bool) -> tuple[Tensor, Tensor, Tensor]:
    B, H, N, _ = q.shape
    q, k, v = (_contiguous_channels(t) for t in (q, k, v))
    out, lse = empty_like(q), q.new_empty(B, H, N, dtype=torch.float32)
    residual = empty_residual(q, bias.places, learning)
    tiles = variant("forward", q, bias)
    arguments, steps = _bias_arguments(bias)
    if out.numel():
        kernels.forward[(triton.cdiv(N, tiles.queries) * B * H,)](  # pyright: ignore[reportIndexIssue]
            q, k, v, *arguments, out, lse, residual if residual.numel() else None,
            *map(_steps, (q, k, v, out)), *steps, H, N, scale, **_constants(q, bias, tiles),
        )  # fmt: skip
    return out, lse, residual


def backward(
    q: Tensor, k: Tensor, v: Tensor, bias: Bias, out: Tensor, lse: Tensor, residual: Tensor, d_out: Tensor,
    d_lse: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    B, H, N, _ = q.shape
    q, k, v, out, d_out = (_contiguous_channels(t) for t in (q, k, v, out, d_out))
    dq, dk, dv = (empty_like(t) for t in (q, k, v))
    d_forms = lse.new_empty(0 if bias.forms is None else bias.forms.shape)
    query_stats = lse.new_empty(B, H, 2 + (0 if bias.forms is None else bias.forms.shape[2]), N)
    if not q.numel():
        return dq, dk, dv, d_forms
    tiles = variant("backward_queries", q, bias)
    arguments, steps = _bias_arguments(bias)
    kernels.backward_queries[(triton.cdiv(N, tiles.queries) * B * H,)](  # pyright: ignore[reportIndexIssue]
        q, k, v, *arguments, out, residual if residual.numel() else None, lse, d_out, d_lse.contiguous(),
        query_stats, dq, d_forms,
        *map(_steps, (q, k, v, out, d_out, dq)), *steps, H, N, scale, **_constants(q, bias, tiles),
    )  # fmt: skip
    tiles = variant("backward_keys", q, bias)
    kernels.backward_keys[(triton.cdiv(N, tiles.keys) * B * H,)](  # pyright: ignore[reportIndexIssue]
        q, k, v, *arguments, d_out, query_stats, dk, dv,
        *map(_steps, (q, k, v, d_out, dk)), *steps, H, N, scale, **_constants(q, bias, tiles),
    )  # fmt: skip
    return dq, dk, dv, d_forms


def _constants(q: Tensor, bias: Bias, tiles: Variant) -> dict[str, Any]:
    """Return the compile-time arguments of a kernel."""
    P = 0 if bias.places is None else bias.places.shape[1]
    return dict(
        KIND=bias.kind,
        P=P,
        COUNT=0 if bias.forms is None else bias.forms.shape[2],
        UNPLACED=bias.placed is not None,
        SPANS=bias.spans is not None,
        WIDTH=q.shape[-1],
        D=padded(q.element_size(), q.shape[-1], P),
        PRECISION="tf32x3" if q.dtype == torch.float32 else "tf32",
        QUERIES=tiles.queries,
        KEYS=tiles.keys,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
        enable_fp_fusion=True,
    )


def _bias_arguments(bias: Bias) -> tuple[list[Any], list[Any]]:
    """Return the bias as tensors, and their strides."""
    places = None if bias.places is None else F.pad(bias.places, (0, -bias.places.shape[2] % ALIGNED)).contiguous()
    placed = None if bias.placed is None else bias.placed.float().contiguous()
    spans = None if bias.spans is None else bias.spans.contiguous()
    forms_steps = (0, 0, 0, 0) if bias.forms is None else bias.forms.stride()
    places_step, *row_steps = [0 if t is None or t.shape[0] == 1 else t.stride(0) for t in (places, placed, spans)]
    axis = 0 if places is None else places.stride(1)
    return [bias.forms, places, placed, spans], [forms_steps, (places_step, axis), *row_steps]


def _contiguous_channels(t: Tensor) -> Tensor:
    """Return `t` with the channels of a token contiguous."""
    return t if t.stride(-1) == 1 else t.contiguous()


def _steps(t: Tensor) -> tuple[int, ...]:
    return t.stride()[:3]
