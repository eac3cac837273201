"""Attention over the keys that can matter (dynamic token selection: block-sparse, chosen anew for each input).

Where attention falls with distance, most keys have next to no weight. Tokens are taken in blocks of neighbours, and for
each query and each block of keys reach.py knows what no weight in it exceeds. The sum of all weights is not below that
over the query's own block. So blocks are left out, from the least on, as long as all that is left out is at most
tolerance / 2 of the sum, for every query of a block. Whatever the input,

    |out - exact| <= tolerance * max |v|            in every channel, up to rounding

for both are means of values, and differ by so much of the weight. Gradients are those of the attention that was
computed. Keys without a place are never left out, and queries without one see every key.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import SeparableBias
from ndformer.framework.kernels.backend import Backend, samples
from ndformer.framework.kernels.block_bounds import Blocked, about, form_of, mattering, middle
from ndformer.framework.kernels.blocks import in_blocks
from ndformer.framework.tokens import Where

TOLERANCE = 1e-3  # rounding to bfloat16 is 4e-3
JUDGED = 2**18  # pairs of a query and a block at once
GATHERED = 2**13  # keys at once: what a core has near
BIAS = 400.0  # what may cancel in float32, as in riding.py
NEVER = -1e30  # a logit without weight, and finite


class Select(Backend):
    """Serves parabolas (PaPE, PaPE-RI ...) outside of compiled graphs, and only where it is asked for."""

    name = "select"

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        if not 0 < tolerance < 1:
            raise ValueError(f"a tolerance is above 0 and below 1, got {tolerance}")
        self.tolerance = tolerance

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        whole = where.segment is not None and samples(q, where) is None
        return isinstance(bias, SeparableBias) and not whole and not torch.compiler.is_compiling()

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        return False  # its numbers are those of the others only within the tolerance

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if not self.serves(q, k, v, where, bias):
            raise ValueError("backend 'select' is for parabolas (PaPE, PaPE-RI ...), not compiled: take 'auto'")
        assert isinstance(bias, SeparableBias)
        B, H, N, _ = q.shape
        exact = torch.promote_types(q.dtype, torch.float32)
        r = torch.stack(bias.axes, -1)
        blocks = in_blocks(r, where, B)
        n, K = blocks.tokens.shape[1:]
        at = (blocks.tokens + torch.arange(B, device=q.device)[:, None, None] * N).flatten()

        def of_rows(t: Tensor) -> Tensor:
            """(B, H, N, C) -> (B H, n, K, C)"""
            chosen = t.to(exact).transpose(1, 2).flatten(0, 1).index_select(0, at)
            return chosen.view(B, n, K, H, -1).permute(0, 3, 1, 2, 4).reshape(B * H, n, K, -1)

        forms, r = coefficients(bias, q), r.expand(B, -1, -1).flatten(0, 1)[at].view(B, n, K, -1)
        places = [r, blocks.held, blocks.low, blocks.high, blocks.free]
        rows = Blocked(*map(of_rows, (q, k, v, forms)), *(t.repeat_interleave(H, 0) for t in places))
        allowed = 0.499 * self.tolerance  # what was rounded in judging is in what is left
        parts = zip(*(t.split(max(1, JUDGED // (n * n * K + 1))) for t in rows))
        outs = [_some(Blocked(*part), scale, allowed) for part in parts]
        out = torch.cat(outs).view(B, H, n * K, -1).transpose(1, 2).flatten(0, 1)  # (B n K, H, width)
        held = blocks.held.flatten()
        total = out.new_zeros(B * N, H, v.shape[-1]).index_copy(0, at[held], out[held])
        return total.view(B, N, H, -1).transpose(1, 2).to(q.dtype)


def coefficients(bias: SeparableBias, q: Tensor) -> Tensor:
    """(B, H, N, P(P+1)/2 + P): the upper entries of M, then c."""
    parts = bias.parabolas()
    P, none = len(parts.axes), q.new_zeros(1, dtype=bias.dtype)
    names = [(a, b) for a in range(P) for b in range(a, P)] + [(a,) for a in range(P)]
    return torch.stack([parts.entries.get(name, none).expand(q.shape[:3]) for name in names], -1)


def _some(rows: Blocked, scale: float, allowed: float) -> Tensor:
    """(R, n, K, width of v) of a few rows."""
    R, n, K, width = rows.v.shape
    seen = mattering(rows, scale, allowed)  # (R, n, n)
    riding = _riding(rows, scale, torch.float64 if _cancels(rows, seen) else rows.q.dtype)
    seen = seen.flatten(0, 1)  # (R n, n)
    counts, order = seen.sum(1).masked_fill(~rows.held.any(2).flatten(), 0).sort(descending=True, stable=True)
    others = seen.to(torch.uint8).argsort(dim=1, descending=True, stable=True)  # those that are seen first
    others = others + (torch.arange(R * n, device=seen.device) // n * n)[:, None]
    lengths = [length for length in counts.tolist() if length]  # of blocks that are not empty
    outs, done = [], 0
    while done < len(lengths):  # blocks that see about as many others, together
        most = lengths[done]
        end = min(len(lengths), done + max(1, GATHERED // (most * K)))
        real = torch.arange(most, device=seen.device) < counts[done:end, None]
        given = riding, order[done:end], others[order[done:end], :most], real, scale
        if torch.is_grad_enabled():
            outs.append(checkpoint(_look, *given, use_reentrant=False, preserve_rng_state=False))
        else:
            outs.append(_look(*given))
        done = end
    out = torch.zeros_like(rows.v).flatten(0, 1)
    if outs:
        out = out.index_copy(0, order[:done], torch.cat(outs)[..., :width].to(out.dtype))
    return out.view(R, n, K, width)


class _Riding(NamedTuple):
    """Blocks of R n, with the bias of queries in extra channels; those of keys depend on who looks."""

    q: Tensor  # (R n, K, E)
    k: Tensor
    v: Tensor
    r: Tensor  # (R n, K, P)
    middle: Tensor  # (R n, 1, P)
    held: Tensor  # (R n, K)
    free: Tensor  # (R n,)
    channels: int  # of a key, before the others


def _cancels(rows: Blocked, seen: Tensor) -> bool:
    """Whether features of keys about the middle of who looks are so large that float32 loses digits."""
    origin = middle(rows)
    far = torch.maximum((rows.low[:, None] - origin).abs(), (rows.high[:, None] - origin).abs()).square().sum(-1)
    far = far.masked_fill(~seen | rows.free[:, None], 0).amax(2).sqrt()[:, :, None]  # (R, n, 1)
    M, c = form_of(rows.forms, rows.r.shape[-1])
    size = sum(m.abs() for row in M for m in row) * far**2 + sum(s.abs() for s in c) * far
    return bool((size.masked_fill(rows.free[..., None], 0) > BIAS).any())


def _riding(rows: Blocked, scale: float, dtype: torch.dtype) -> _Riding:
    """dr' M dr + c' dr as a polynomial of the key's place about the middle of the query's block: see parabolas.py."""
    origin = middle(rows)
    constant, slopes, M = about(rows, origin, dtype)
    fq = torch.stack([constant, *slopes, *(M[a][b] for a in range(len(M)) for b in range(a, len(M)))], -1) / scale
    fq = torch.where(rows.free[..., None, None], 0.0, fq)
    D, width = rows.q.shape[-1], rows.v.shape[-1]
    wide = max(D + fq.shape[-1] + 1, width)  # as torch's flash attention on a CPU likes it: all equally wide
    wide += -wide % 8
    q = torch.cat([rows.q.to(dtype), fq, torch.ones_like(fq[..., :1])], -1)
    q, k, v = (F.pad(t.to(dtype), (0, wide - t.shape[-1])).flatten(0, 1) for t in (q, rows.k, rows.v))
    r, origin, held, free = (t.flatten(0, 1) for t in (rows.r, origin, rows.held, rows.free))
    return _Riding(q, k, v, r, origin, held, free, D)


def _look(blocks: _Riding, ours: Tensor, theirs: Tensor, real: Tensor, scale: float) -> Tensor:
    """(G, K, E): what the queries of G blocks (G,) see in (G, S) others, where those are `real`."""
    G, S = theirs.shape

    def keys(t: Tensor) -> Tensor:
        return t.index_select(0, theirs.flatten()).view(G, S * t.shape[1], *t.shape[2:])

    y = [(keys(blocks.r) - blocks.middle[ours]).to(blocks.q.dtype)[..., a] for a in range(blocks.r.shape[-1])]
    squares = [y[a] * y[b] * (1 if a == b else 2) for a in range(len(y)) for b in range(a, len(y))]
    placed = ~blocks.free[theirs].repeat_interleave(blocks.held.shape[1], 1)
    fk = torch.stack([torch.ones_like(y[0]), *y, *squares], -1) * placed[..., None]
    here = keys(blocks.held) & real.repeat_interleave(blocks.held.shape[1], 1)
    k, C = keys(blocks.k), blocks.channels
    k[..., C : C + fk.shape[-1]] = fk
    k[..., C + fk.shape[-1]] = torch.where(here, 0.0, NEVER / scale)
    q = blocks.q.index_select(0, ours)
    return F.scaled_dot_product_attention(q[:, None], k[:, None], keys(blocks.v)[:, None], scale=scale)[:, 0]
