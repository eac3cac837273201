"""Upper bounds of attention logits for pairs of blocks, to skip blocks of keys with negligible weight.

For one query, dr' M dr + c' dr is bounded over a box: if M has no positive eigenvalue, the function lies below each of
its tangent planes, and a plane is largest in a corner of the box. Any point of the box gives a valid tangent; the bound
is tighter the closer the point is to the maximum.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ndformer.framework.bias.parabolas import upper_entries

ROUNDING = 4e-6  # relative rounding error of float32 in a sum of several products


class Blocked(NamedTuple):
    """R rows (one per sample and head) of n blocks with K slots."""

    q: Tensor  # (R, n, K, D)
    k: Tensor
    v: Tensor
    forms: Tensor  # (R, n, K, P(P+1)/2 + P): the upper entries of M, then c
    r: Tensor  # (R, n, K, P) positions in their original dtype
    occupied: Tensor  # (R, n, K) False = an empty slot
    low: Tensor  # (R, n, P) bounding box of each block, dtype of r
    high: Tensor
    free: Tensor  # (R, n) blocks of tokens without a position


def unpack_forms(forms: Tensor, P: int) -> tuple[list[list[Tensor]], list[Tensor]]:
    """Return M and c by their entries from (..., P(P+1)/2 + P)."""
    entries = forms.unbind(-1)
    upper = dict(zip(upper_entries(P), entries))
    return [[upper[min(a, b), max(a, b)] for b in range(P)] for a in range(P)], list(entries[len(upper) :])


@torch.no_grad()
def relevant_blocks(rows: Blocked, scale: float, allowed: float) -> Tensor:
    """Return (R, n, n) True = queries of the first block attend to keys of the second.

    For each query, the total weight of skipped keys is at most `allowed` times that of the other keys.
    """
    R, n, K, D = rows.q.shape
    count = rows.occupied.sum(2)
    center = rows.k.masked_fill(~rows.occupied[..., None], 0).sum(2) / count.clamp(min=1)[..., None]
    radius = (rows.k - center[:, :, None]).norm(dim=-1).masked_fill(~rows.occupied, 0).amax(2)
    radius = (radius + 2 * ROUNDING * (radius + center.norm(dim=-1)))[:, None, None] * abs(scale)  # (R, 1, 1, n)
    bound = highest(rows, -_block_logsumexp(rows, scale))
    bound.view(R, n * K, n).baddbmm_(rows.q.reshape(R, n * K, D), center.mT, alpha=scale)
    bound.addcmul_(rows.q.norm(dim=-1, keepdim=True), radius)
    if not rows.occupied.all():
        bound.masked_fill_(~rows.occupied[..., None], -torch.inf)
    weights = (bound.amax(2).exp() * count[:, None]).masked_fill((count == 0)[:, None], 0)  # (R, n, n)
    always = rows.free[:, :, None] | rows.free[:, None] | torch.eye(n, dtype=torch.bool, device=count.device)
    weights, order = weights.masked_fill(always, torch.inf).sort(-1)  # NaN is last
    skipped = torch.zeros_like(always).scatter(2, order, weights.double().cumsum(-1) <= allowed)
    return ~skipped & (count > 0)[:, None]


def _block_logsumexp(rows: Blocked, scale: float) -> Tensor:
    """Return (R, n, K) a lower bound of the logsumexp of each query's logits over the keys of its block."""
    dtype, origin = rows.q.dtype, middle(rows)
    constant, slopes, M = about(rows, origin, dtype)
    y = (rows.r - origin).to(dtype).unbind(-1)
    pairs = upper_entries(len(y))
    coefficients = torch.stack([constant, *slopes, *(M[a][b] * (1 + (a != b)) for a, b in pairs)], -1)
    monomials = torch.stack([torch.ones_like(y[0]), *y, *(y[a] * y[b] for a, b in pairs)], -1)
    far = monomials[..., 1 + len(y) :].abs().amax((2, 3))[..., None]
    noise = ROUNDING * len(y) ** 2 * (coefficients.abs().amax(-1) * (1 + far))
    coefficients = coefficients.masked_fill(rows.free[..., None, None], 0)
    logits = (rows.q * scale) @ rows.k.mT
    logits.flatten(0, 1).baddbmm_(coefficients.flatten(0, 1), monomials.mT.flatten(0, 1))
    if not rows.occupied.all():
        logits.masked_fill_(~rows.occupied[:, :, None], -torch.inf)
    return logits.logsumexp(-1) - noise


def highest(rows: Blocked, plus: Tensor) -> Tensor:
    """Return (R, n, K, n) the upper bound of dr' M dr + c' dr over the box of each block, plus `plus` (R, n, K)."""
    P, dtype, origin = rows.r.shape[-1], rows.q.dtype, middle(rows)
    axes = range(P)
    low, high = ((t[:, None] - origin).to(dtype)[:, :, None].unbind(-1) for t in (rows.low, rows.high))  # (R, n, 1, n)
    radius = (
        ((rows.high - rows.low) / 2).square().sum(-1)[:, :, None, None].to(dtype)
    )  # bounds |x|^2 in the block of the query
    far = 2 * (radius + sum(torch.maximum(lo.square(), hi.square()) for lo, hi in zip(low, high)))  # bounds |dr|^2
    lift, noise = _lift(*unpack_forms(rows.forms, P))  # (R, n, K)
    constant, slopes, M = about(rows, origin, dtype)
    # polynomial of M - lift; lift |dr|^2 is added at the end
    x = (rows.r - origin).to(dtype).unbind(-1)
    constant = constant - lift * sum(position.square() for position in x)
    slopes = [(s + 2 * lift * position)[..., None] for s, position in zip(slopes, x)]
    curvature = [[(2 * (lift * (a == b) - M[a][b]))[..., None] for b in axes] for a in axes]
    y = [position[..., None].clamp(lo, hi) for position, lo, hi in zip(x, low, high)]  # the nearest point
    for _ in range(1 if P == 1 else 2):  # coordinate ascent towards the maximum
        for a in axes:
            bend = curvature[a][a].clamp(min=1e-30)
            best = slopes[a] / bend
            for b in axes:
                if b != a:
                    best = torch.addcmul(best, curvature[a][b] / bend, y[b], value=-1)
            y[a] = best.clamp(low[a], high[a])
    top = torch.addcmul((constant + noise + plus)[..., None], (lift + noise)[..., None], far)
    for a in axes:
        g = slopes[a]
        for b in axes:
            g = torch.addcmul(g, curvature[a][b], y[b], value=-1)
        top.addcmul_(slopes[a] - g, y[a], value=0.5).add_(torch.maximum(g * low[a], g * high[a]))
    return top


def middle(rows: Blocked) -> Tensor:
    """Return (R, n, 1, P) the center of each block's box."""
    return ((rows.low + rows.high) / 2)[:, :, None]


def about(rows: Blocked, origin: Tensor, dtype: torch.dtype) -> tuple[Tensor, list[Tensor], list[list[Tensor]]]:
    """Return dr' M dr + c' dr as a polynomial of the key position y - origin: constant, slopes, M, each (R, n, K)."""
    M, c = unpack_forms(rows.forms.to(dtype), rows.r.shape[-1])
    axes, x = range(len(c)), (rows.r - origin).to(dtype).unbind(-1)
    slopes = [c[a] - 2 * sum(M[a][b] * x[b] for b in axes) for a in axes]
    constant = torch.stack([x[a] * (slopes[a] + c[a]) for a in axes]).sum(0) * -0.5
    return constant, slopes, M


def _lift(M: list[list[Tensor]], c: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return a value whose subtraction from the diagonal of M leaves no positive eigenvalue, and the rounding error.

    Gaussian elimination tests for positive eigenvalues; if there are some, the Frobenius norm bounds them.
    """
    size = torch.stack([m for row in M for m in row]).norm(dim=0)
    left = [[-m + 1e-6 * size * (a == b) for b, m in enumerate(row)] for a, row in enumerate(M)]
    negative = torch.ones_like(size, dtype=torch.bool)
    for a in range(len(c)):
        negative &= left[a][a] > 0
        for b in range(a + 1, len(c)):
            share = left[b][a] / left[a][a]
            left[b] = [below - share * above for below, above in zip(left[b], left[a])]
    noise = ROUNDING * (size + sum(slope.abs() for slope in c))
    return torch.where(negative, 2e-6 * size, 1.001 * size), noise
