"""Reference of the fused kernels, and their CPU version: attention that materializes all N x N logits and biases."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ndformer.framework.bias.base import norm
from ndformer.framework.bias.curves import gaussian, logarithm, power
from ndformer.framework.system.autocast import without_autocast

CURVES = dict(power=power, logarithm=logarithm, gaussian=gaussian)  # by kind of bias


class Bias(NamedTuple):
    """The tensors that define a bias, as documented in fused_op.py."""

    forms: Tensor | None  # (B, H, F, N), parameters of the bias for each query and head
    places: Tensor | None  # (B or 1, P, N), coordinates
    placed: Tensor | None  # (B or 1, N), False: a token without a position
    spans: Tensor | None  # (B or 1, 2, N), the first visible key and the one after the last
    kind: str  # "none", "parabola", "isotropic", "distance", "power", "logarithm" or "gaussian"


def forward(q: Tensor, k: Tensor, v: Tensor, bias: Bias, scale: float, learning: bool) -> tuple[Tensor, Tensor, Tensor]:
    with without_autocast(q):
        exact = _exact(q, k)
        logits = _logits(exact[0], exact[1], bias, scale)
        lse = logits.logsumexp(-1)
        weights = _weights(logits, lse)
        sums = weights @ v.to(weights.dtype)
        out, residual = _token_major(sums, q.dtype), empty_residual(q, bias.places, learning)
        if residual.numel():
            residual.copy_(sums - out)
        return out, lse, residual


def backward(
    q: Tensor, k: Tensor, v: Tensor, bias: Bias, out: Tensor, lse: Tensor, residual: Tensor, d_out: Tensor,
    d_lse: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    with without_autocast(q):
        qe, ke, ve, out, d_out = _exact(q, k, v, out, d_out)
        out = out + residual if residual.numel() else out
        weights = _weights(_logits(qe, ke, bias, scale), lse)
        delta = (out * d_out).sum(-1, keepdim=True) - d_lse[..., None]
        d_logits = weights * (d_out @ ve.mT - delta)  # (B, H, N, N)
        d_forms = lse.new_empty(0)
        if bias.forms is not None:
            slopes = _form_gradients(bias, _differences(bias))
            d_forms = torch.stack([(d_logits * slope).sum(-1) for slope in slopes], 2).to(bias.forms.dtype)
        dq, dk, dv = d_logits @ ke * scale, d_logits.mT @ qe * scale, weights.mT @ d_out
        return _token_major(dq, q.dtype), _token_major(dk, k.dtype), _token_major(dv, v.dtype), d_forms


def empty_like(t: Tensor) -> Tensor:
    """Return an empty (B, H, N, h) laid out as (B, N, H, h), since the next layer joins the heads of a token."""
    B, H, N, h = t.shape
    return t.new_empty(B, N, H, h).transpose(1, 2)


def empty_residual(q: Tensor, places: Tensor | None, learning: bool) -> Tensor:
    """Allocate the rounding error of a 16-bit output, which the backward pass adds back; empty if it is not needed.

    In three and more dimensions attention concentrates on few keys. The gradients of q and k are then small differences
    of large numbers, in which a rounded output would show."""
    needed = places is not None and places.shape[1] > 2 and q.element_size() == 2
    return empty_like(q) if learning and needed else q.new_empty(0)


def _exact(*tensors: Tensor) -> list[Tensor]:
    return [t.to(torch.promote_types(t.dtype, torch.float32)) for t in tensors]


def _token_major(t: Tensor, dtype: torch.dtype) -> Tensor:
    """Return (B, H, N, h) in `dtype`, laid out as (B, N, H, h)."""
    return t.to(dtype).transpose(1, 2).contiguous().transpose(1, 2)


def _logits(q: Tensor, k: Tensor, bias: Bias, scale: float) -> Tensor:
    logits = q @ k.mT * scale
    if bias.kind != "none":
        logits = logits + _values(bias, _differences(bias)).to(logits.dtype)
    if bias.spans is None:
        return logits
    first = bias.spans[:, 0]
    visible = (first[:, :, None] == first[:, None, :]) & (first >= 0)[:, None, :]
    return logits.masked_fill(~visible[:, None], -torch.inf)


def _weights(logits: Tensor, lse: Tensor) -> Tensor:
    return (logits - lse[..., None]).exp().masked_fill((lse == -torch.inf)[..., None], 0)


def _differences(bias: Bias) -> list[Tensor]:
    """Return r_j - r_i for each axis, (B or 1, 1, N, N); 0, so no bias, where one of the two has no position."""
    assert bias.places is not None
    dr = bias.places[:, :, None, :] - bias.places[:, :, :, None]
    if bias.placed is not None:
        dr = dr.masked_fill(~(bias.placed[:, None, None, :] & bias.placed[:, None, :, None]), 0)
    return [axis[:, None] for axis in dr.unbind(1)]


def _values(bias: Bias, dr: Sequence[Tensor]) -> Tensor:
    assert bias.forms is not None
    forms = [form[..., None] for form in bias.forms.unbind(2)]  # F of (B, H, N, 1)
    if bias.kind in CURVES:
        return CURVES[bias.kind](norm(dr), *forms)
    return sum((form * slope for form, slope in zip(forms, _form_gradients(bias, dr))), torch.zeros_like(dr[0]))


def _form_gradients(bias: Bias, dr: Sequence[Tensor]) -> list[Tensor]:
    """Return d logits / d form for each of the F parameters: F of (B or 1, H or 1, N, N)."""
    if bias.kind == "parabola":
        P = len(dr)
        squares = [dr[a] * dr[b] * (1 if a == b else 2) for a in range(P) for b in range(a, P)]
        return [*squares, *dr]
    assert bias.forms is not None
    forms = [form[..., None] for form in bias.forms.unbind(2)]
    d = norm(dr)
    if bias.kind == "isotropic":
        return [d**2]
    if bias.kind == "distance":
        return [-d]
    if bias.kind == "power":
        away = torch.where(d > 0, d, 1)
        power = torch.where(d > 0, away ** forms[1], 0)
        return [-power, -forms[0] * power * away.log()]
    if bias.kind == "logarithm":
        return [-forms[1] * d / (1 + forms[0] * d), -torch.log1p(forms[0] * d)]
    return [d**2 / forms[0] ** 3]  # gaussian
