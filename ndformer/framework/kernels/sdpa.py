"""torch's scaled_dot_product_attention, with positions in one of three forms.

no bias      as it is
features     a separable bias rides on q and k as a few extra channels: near the price of no position. In float32
             only, and only where the encoding says that the extent of the positions allows it
a mask       the bias of all pairs, made in float32
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.bias import Bias
from ndformer.framework.features import blocks
from ndformer.framework.kernels.masks import bias_rows, seen
from ndformer.framework.tokens import Where


def sdpa(q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
    dtype = q.dtype
    if bias is not None and q.device.type == "cpu" and dtype in (torch.bfloat16, torch.float16):
        q, k, v = q.float(), k.float(), v.float()  # on CPU no slower than 16 bit, and exact
    mask = seen(where, 0, q.shape[2])
    if bias is not None and bias.separable and q.dtype == torch.float32:
        return riding(q, k, v, where, bias, mask, scale).to(dtype)
    if bias is not None:
        total = bias_rows(bias, where, 0, q.shape[2])
        if mask is not None:
            total = total.masked_fill(~mask, -torch.inf)
        # one form for all kernels: they know no broadcast over heads with gradients
        mask = total.to(q.dtype).expand(q.shape[0], q.shape[1], -1, -1)
    width = v.shape[-1]
    v = _as_wide(v, q)  # where something rides on q and k already
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)[..., :width].to(dtype)


def riding(q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias, mask: Tensor | None, scale: float) -> Tensor:
    """With the bias as extra channels of q and k, for all queries at once or for a block of the grid at a time."""
    width = v.shape[-1]
    if not any(bias.halvings or ()):
        q, k = widen(q, k, where, bias, None, scale)
        return F.scaled_dot_product_attention(q, k, _as_wide(v, q), attn_mask=mask, scale=scale)[..., :width]
    parts, outputs = blocks(where, bias.halvings or ()), []
    for queries in parts:
        near, keys = widen(q[:, :, queries], k, where, bias, queries, scale)
        v = _as_wide(v, near)
        outputs.append(F.scaled_dot_product_attention(near, keys, v, attn_mask=mask, scale=scale)[..., :width])
    return torch.cat(outputs, dim=2)[:, :, torch.cat(parts).argsort()]


def widen(
    q: Tensor, k: Tensor, where: Where, bias: Bias, queries: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """q, of all tokens or of some, and k with the bias as extra channels, to a multiple of 8."""
    fq, fk = bias.features(queries)
    fq = fq / scale
    if where.placed is not None:
        theirs = where.placed if queries is None else where.placed[:, queries]
        fq = torch.where(theirs[:, None, :, None], fq, 0.0)
        fk = torch.where(where.placed[:, None, :, None], fk, 0.0)
    spare = -(q.shape[-1] + fq.shape[-1]) % 8
    fq, fk = F.pad(fq, (0, spare)), F.pad(fk, (0, spare))
    fk = fk.to(k.dtype).expand(k.shape[0], k.shape[1], -1, -1)
    return torch.cat([q, fq.to(q.dtype).expand(*q.shape[:3], -1)], dim=-1), torch.cat([k, fk], dim=-1)


def _as_wide(v: Tensor, q: Tensor) -> Tensor:
    """Flash wants q, k and v equally wide."""
    return v if v.shape[-1] >= q.shape[-1] else F.pad(v, (0, q.shape[-1] - v.shape[-1]))
