"""Block-sparse attention that skips keys of negligible weight, selected dynamically for each input.

If attention decreases with distance, most keys have almost no weight. Tokens are grouped into blocks of neighbors.
block_bounds.py bounds the weight of each block of keys for each query from above, and the sum of all weights from below
by the sum over the query's block. Blocks are skipped in ascending order of their bound while the skipped weight is at
most tolerance / 2 of the sum, for every query of a block. For any input,

    |out - exact| <= tolerance * max |v|            in every channel, up to rounding

because both are weighted means of values whose weights differ by that much. Gradients are those of the computed
attention. Keys without a position are never skipped, and queries without one attend to every key.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import SeparableBias, upper_entries
from ndformer.framework.kernels.backend import Backend, samples
from ndformer.framework.kernels.block_bounds import Blocked, about, middle, relevant_blocks, unpack_forms
from ndformer.framework.kernels.blocks import in_blocks
from ndformer.framework.tokens import Where

TOLERANCE = 1e-3  # rounding to bfloat16 is 4e-3
MAX_BOUNDS = 2**18  # pairs of a query and a block at a time
MAX_KEYS = 2**13  # gathered keys at a time, to fit the cache of a core
MAX_BIAS = 400.0  # magnitude that may cancel in float32, as in bias/channels.py
NEVER = -1e30  # a finite logit of weight 0


class Select(Backend):
    """Sparse attention for parabolic biases (PaPE, PaPE-RI ...) outside compiled graphs; never chosen by 'auto'."""

    name = "select"

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance must be above 0 and below 1, got {tolerance}")
        self.tolerance = tolerance

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        uncut = where.segment is not None and samples(q, where) is None
        return isinstance(bias, SeparableBias) and not uncut and not torch.compiler.is_compiling()

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        return False  # results are equal to other backends only within the tolerance

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if not self.serves(q, k, v, where, bias):
            raise ValueError(
                "backend 'select' requires a parabolic bias (PaPE, PaPE-RI ...) outside compiled graphs. Use 'auto'"
            )
        assert isinstance(bias, SeparableBias)
        B, H, N, _ = q.shape
        if not q.numel():
            return v.new_zeros(B, H, N, v.shape[-1])
        exact = torch.promote_types(q.dtype, torch.float32)
        r = torch.stack(bias.axes, -1)
        blocks = in_blocks(r, where, B)
        n, K = blocks.tokens.shape[1:]
        index = (blocks.tokens + torch.arange(B, device=q.device)[:, None, None] * N).flatten()

        def gather_blocks(t: Tensor) -> Tensor:
            """Gather (B, H, N, C) into (B H, n, K, C)."""
            chosen = t.to(exact).transpose(1, 2).flatten(0, 1).index_select(0, index)
            return chosen.view(B, n, K, H, -1).permute(0, 3, 1, 2, 4).reshape(B * H, n, K, -1)

        forms = torch.stack(bias.parabolas().coefficients(r.shape[-1], q.shape[:3]), -1)
        r = r.expand(B, -1, -1).flatten(0, 1)[index].view(B, n, K, -1)
        places = [r, blocks.occupied, blocks.low, blocks.high, blocks.free]
        rows = Blocked(*map(gather_blocks, (q, k, v, forms)), *(t.repeat_interleave(H, 0) for t in places))
        allowed = 0.499 * self.tolerance  # the difference to 0.5 covers rounding of the bounds
        parts = zip(*(t.split(max(1, MAX_BOUNDS // (n * n * K + 1))) for t in rows))
        outs = [_attend_blocks(Blocked(*part), scale, allowed) for part in parts]
        out = torch.cat(outs).view(B, H, n * K, -1).transpose(1, 2).flatten(0, 1)  # (B n K, H, width)
        occupied = blocks.occupied.flatten()
        total = out.new_zeros(B * N, H, v.shape[-1]).index_copy(0, index[occupied], out[occupied])
        return total.view(B, N, H, -1).transpose(1, 2).to(q.dtype)


def _attend_blocks(rows: Blocked, scale: float, allowed: float) -> Tensor:
    """Return attention outputs (R, n, K, width of v) of a few rows."""
    R, n, K, width = rows.v.shape
    visible = relevant_blocks(rows, scale, allowed)  # (R, n, n)
    wide = _with_channels(rows, scale, torch.float64 if _cancels(rows, visible) else rows.q.dtype)
    visible = visible.flatten(0, 1)  # (R n, n)
    counts, order = visible.sum(1).masked_fill(~rows.occupied.any(2).flatten(), 0).sort(descending=True, stable=True)
    keys = visible.to(torch.uint8).argsort(dim=1, descending=True, stable=True)  # visible blocks first
    keys = keys + (torch.arange(R * n, device=visible.device) // n * n)[:, None]
    lengths = [length for length in counts.tolist() if length]  # of nonempty blocks
    outs, done = [], 0
    while done < len(lengths):  # blocks with about as many visible blocks together
        longest = lengths[done]
        end = min(len(lengths), done + max(1, MAX_KEYS // (longest * K)))
        real = torch.arange(longest, device=visible.device) < counts[done:end, None]
        args = wide, order[done:end], keys[order[done:end], :longest], real, scale
        if torch.is_grad_enabled():
            outs.append(checkpoint(_attend_group, *args, use_reentrant=False, preserve_rng_state=False))
        else:
            outs.append(_attend_group(*args))
        done = end
    out = torch.zeros_like(rows.v).flatten(0, 1)
    if outs:
        out = out.index_copy(0, order[:done], torch.cat(outs)[..., :width].to(out.dtype))
    return out.view(R, n, K, width)


class _Wide(NamedTuple):
    """R n blocks with bias coefficients in extra channels of q; those of k depend on the query block."""

    q: Tensor  # (R n, K, E)
    k: Tensor
    v: Tensor
    r: Tensor  # (R n, K, P)
    middle: Tensor  # (R n, 1, P)
    occupied: Tensor  # (R n, K)
    free: Tensor  # (R n,)
    channels: int  # channels of k before the extra ones


def _cancels(rows: Blocked, visible: Tensor) -> bool:
    """Return whether key channels, relative to the center of a query block, are too large for float32."""
    origin = middle(rows)
    far = torch.maximum((rows.low[:, None] - origin).abs(), (rows.high[:, None] - origin).abs()).square().sum(-1)
    far = far.masked_fill(~visible | rows.free[:, None], 0).amax(2).sqrt()[:, :, None]  # (R, n, 1)
    M, c = unpack_forms(rows.forms, rows.r.shape[-1])
    size = sum(m.abs() for row in M for m in row) * far**2 + sum(s.abs() for s in c) * far
    return bool((size.masked_fill(rows.free[..., None], 0) > MAX_BIAS).any())


def _with_channels(rows: Blocked, scale: float, dtype: torch.dtype) -> _Wide:
    """Add the bias as a polynomial of the key position, relative to the center of the query block, to the channels."""
    origin = middle(rows)
    constant, slopes, M = about(rows, origin, dtype)
    fq = torch.stack([constant, *slopes, *(M[a][b] for a, b in upper_entries(len(M)))], -1) / scale
    fq = torch.where(rows.free[..., None, None], 0.0, fq)
    D, width = rows.q.shape[-1], rows.v.shape[-1]
    wide = max(D + fq.shape[-1] + 1, width)  # torch's flash attention on a CPU needs q, k and v equally wide
    wide += -wide % 8
    q = torch.cat([rows.q.to(dtype), fq, torch.ones_like(fq[..., :1])], -1)
    q, k, v = (F.pad(t.to(dtype), (0, wide - t.shape[-1])).flatten(0, 1) for t in (q, rows.k, rows.v))
    r, origin, occupied, free = (t.flatten(0, 1) for t in (rows.r, origin, rows.occupied, rows.free))
    return _Wide(q, k, v, r, origin, occupied, free, D)


def _attend_group(blocks: _Wide, queries: Tensor, keys: Tensor, real: Tensor, scale: float) -> Tensor:
    """Return outputs (G, K, E) of query blocks (G,) that attend to key blocks (G, S), where `real`."""
    G, S = keys.shape

    def gather(t: Tensor) -> Tensor:
        return t.index_select(0, keys.flatten()).view(G, S * t.shape[1], *t.shape[2:])

    y = [(gather(blocks.r) - blocks.middle[queries]).to(blocks.q.dtype)[..., a] for a in range(blocks.r.shape[-1])]
    squares = [y[a] * y[b] * (1 if a == b else 2) for a, b in upper_entries(len(y))]
    placed = ~blocks.free[keys].repeat_interleave(blocks.occupied.shape[1], 1)
    fk = torch.stack([torch.ones_like(y[0]), *y, *squares], -1) * placed[..., None]
    present = gather(blocks.occupied) & real.repeat_interleave(blocks.occupied.shape[1], 1)
    k, C = gather(blocks.k), blocks.channels
    k[..., C : C + fk.shape[-1]] = fk
    k[..., C + fk.shape[-1]] = torch.where(present, 0.0, NEVER / scale)
    q = blocks.q.index_select(0, queries)
    return F.scaled_dot_product_attention(q[:, None], k[:, None], gather(blocks.v)[:, None], scale=scale)[:, 0]
