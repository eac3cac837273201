"""Which blocks of keys can matter to which blocks of queries: bounds of logits.

For a query, what dr' M dr + c' dr is at most over a box: where M has no positive eigenvalue, the function lies below
each of its tangent planes, and a plane is largest in a corner. Any point of the box will do for the tangent; the closer
it is to the maximum, the closer the bound.
"""

from typing import NamedTuple

import torch
from torch import Tensor

ROUNDING = 4e-6  # of float32, in a sum of several products, relative to them


class Blocked(NamedTuple):
    """R rows (a sample's head each) of n blocks of K slots."""

    q: Tensor  # (R, n, K, D)
    k: Tensor
    v: Tensor
    forms: Tensor  # (R, n, K, P(P+1)/2 + P): the upper entries of M, then c
    r: Tensor  # (R, n, K, P), in its own precision
    held: Tensor  # (R, n, K) False = an empty slot
    low: Tensor  # (R, n, P), as r: the box of each block
    high: Tensor
    free: Tensor  # (R, n) tokens without a place


def form_of(forms: Tensor, P: int) -> tuple[list[list[Tensor]], list[Tensor]]:
    """(..., P(P+1)/2 + P) -> M and c by their entries."""
    entries = forms.unbind(-1)
    upper = {(a, b): a * P - a * (a - 1) // 2 + b - a for a in range(P) for b in range(a, P)}
    M = [[entries[upper[min(a, b), max(a, b)]] for b in range(P)] for a in range(P)]
    return M, list(entries[len(upper) :])


@torch.no_grad()
def mattering(rows: Blocked, scale: float, allowed: float) -> Tensor:
    """(R, n, n) True = the queries of the first block look at the keys of the second. The weights of all that none of
    them looks at are at most `allowed` of the sum of the others."""
    R, n, K, D = rows.q.shape
    count = rows.held.sum(2)
    centre = rows.k.masked_fill(~rows.held[..., None], 0).sum(2) / count.clamp(min=1)[..., None]
    ball = (rows.k - centre[:, :, None]).norm(dim=-1).masked_fill(~rows.held, 0).amax(2)
    ball = (ball + 2 * ROUNDING * (ball + centre.norm(dim=-1)))[:, None, None] * abs(scale)  # (R, 1, 1, n)
    most = highest(rows, -_own(rows, scale))
    most.view(R, n * K, n).baddbmm_(rows.q.reshape(R, n * K, D), centre.mT, alpha=scale)
    most.addcmul_(rows.q.norm(dim=-1, keepdim=True), ball)
    if not rows.held.all():
        most.masked_fill_(~rows.held[..., None], -torch.inf)
    weights = (most.amax(2).exp() * count[:, None]).masked_fill((count == 0)[:, None], 0)  # (R, n, n)
    always = rows.free[:, :, None] | rows.free[:, None] | torch.eye(n, dtype=torch.bool, device=count.device)
    weights, order = weights.masked_fill(always, torch.inf).sort(-1)  # NaN is last
    out = torch.zeros_like(always).scatter(2, order, weights.double().cumsum(-1) <= allowed)
    return ~out & (count > 0)[:, None]


def _own(rows: Blocked, scale: float) -> Tensor:
    """(R, n, K) what the sum of a query's weights in its own block is not below, as a logit."""
    dtype, origin = rows.q.dtype, middle(rows)
    constant, slopes, M = about(rows, origin, dtype)
    y = (rows.r - origin).to(dtype).unbind(-1)
    pairs = [(a, b) for a in range(len(y)) for b in range(a, len(y))]
    ours = torch.stack([constant, *slopes, *(M[a][b] * (1 + (a != b)) for a, b in pairs)], -1)
    theirs = torch.stack([torch.ones_like(y[0]), *y, *(y[a] * y[b] for a, b in pairs)], -1)
    far = theirs[..., 1 + len(y) :].abs().amax((2, 3))[..., None]
    noise = ROUNDING * len(y) ** 2 * (ours.abs().amax(-1) * (1 + far))
    ours = ours.masked_fill(rows.free[..., None, None], 0)
    logits = (rows.q * scale) @ rows.k.mT
    logits.flatten(0, 1).baddbmm_(ours.flatten(0, 1), theirs.mT.flatten(0, 1))
    if not rows.held.all():
        logits.masked_fill_(~rows.held[:, :, None], -torch.inf)
    return logits.logsumexp(-1) - noise


def highest(rows: Blocked, plus: Tensor) -> Tensor:
    """(R, n, K, n) what dr' M dr + c' dr of a query at most is in the box of a block, `plus` (R, n, K)."""
    P, dtype, origin = rows.r.shape[-1], rows.q.dtype, middle(rows)
    axes = range(P)
    low, high = ((t[:, None] - origin).to(dtype)[:, :, None].unbind(-1) for t in (rows.low, rows.high))  # (R, n, 1, n)
    own = ((rows.high - rows.low) / 2).square().sum(-1)[:, :, None, None].to(dtype)  # of which no |x|^2 is larger
    far = 2 * (own + sum(torch.maximum(lo.square(), hi.square()) for lo, hi in zip(low, high)))  # nor |dr|^2 than this
    lift, noise = _lift(*form_of(rows.forms, P))  # (R, n, K)
    constant, slopes, M = about(rows, origin, dtype)
    # of M - lift, and lift |dr|^2 is added in the end
    x = (rows.r - origin).to(dtype).unbind(-1)
    constant = constant - lift * sum(place.square() for place in x)
    slopes = [(s + 2 * lift * place)[..., None] for s, place in zip(slopes, x)]
    falls = [[(2 * (lift * (a == b) - M[a][b]))[..., None] for b in axes] for a in axes]
    y = [place[..., None].clamp(lo, hi) for place, lo, hi in zip(x, low, high)]  # the nearest point
    for _ in range(1 if P == 1 else 2):  # to the maximum, along one axis after the other
        for a in axes:
            bend = falls[a][a].clamp(min=1e-30)
            best = slopes[a] / bend
            for b in axes:
                if b != a:
                    best = torch.addcmul(best, falls[a][b] / bend, y[b], value=-1)
            y[a] = best.clamp(low[a], high[a])
    top = torch.addcmul((constant + noise + plus)[..., None], (lift + noise)[..., None], far)
    for a in axes:
        g = slopes[a]
        for b in axes:
            g = torch.addcmul(g, falls[a][b], y[b], value=-1)
        top.addcmul_(slopes[a] - g, y[a], value=0.5).add_(torch.maximum(g * low[a], g * high[a]))
    return top


def middle(rows: Blocked) -> Tensor:
    """(R, n, 1, P) of each block's box."""
    return ((rows.low + rows.high) / 2)[:, :, None]


def about(rows: Blocked, origin: Tensor, dtype: torch.dtype) -> tuple[Tensor, list[Tensor], list[list[Tensor]]]:
    """dr' M dr + c' dr as a polynomial of the key's place y about `origin`: constant, slopes, M, each (R, n, K)."""
    M, c = form_of(rows.forms.to(dtype), rows.r.shape[-1])
    axes, x = range(len(c)), (rows.r - origin).to(dtype).unbind(-1)
    slopes = [c[a] - 2 * sum(M[a][b] * x[b] for b in axes) for a in axes]
    constant = torch.stack([x[a] * (slopes[a] + c[a]) for a in axes]).sum(0) * -0.5
    return constant, slopes, M


def _lift(M: list[list[Tensor]], c: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What must be taken off the diagonal of M so that surely no eigenvalue is positive, and what may be rounded away.
    Gauss' elimination says whether one is; then the Frobenius norm is no less than it."""
    size = torch.stack([m for row in M for m in row]).norm(dim=0)
    left = [[-m + 1e-6 * size * (a == b) for b, m in enumerate(row)] for a, row in enumerate(M)]
    falls = torch.ones_like(size, dtype=torch.bool)
    for a in range(len(c)):
        falls &= left[a][a] > 0
        for b in range(a + 1, len(c)):
            share = left[b][a] / left[a][a]
            left[b] = [one - share * other for one, other in zip(left[b], left[a])]
    noise = ROUNDING * (size + sum(slope.abs() for slope in c))
    return torch.where(falls, 2e-6 * size, 1.001 * size), noise
