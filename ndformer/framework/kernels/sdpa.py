"""Flash attention: torch's scaled_dot_product_attention, with positions in one of three forms.

no bias      as it is
features     a separable bias rides on q and k as a few extra channels: near the price of no position. In float32
             only, and only where the encoding says that the extent of the positions allows it
a mask       the bias of all pairs, made in float32
"""

from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import SeparableBias
from ndformer.framework.kernels.backend import Backend, on_gpu, samples
from ndformer.framework.kernels.masks import bias_rows, seen
from ndformer.framework.tokens import Where

MASK = 2**26  # elements of a bias that may be made whole: 256 MiB in float32


class SDPA(Backend):
    """Serves everything; worth it unless a bias, or the mask of packed rows, would be large as a whole."""

    name = "sdpa"

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        if torch.compiler.is_exporting():
            return True  # a graph is of batches and images of any size, and computes all in one way
        rows_only = bias is not None and not bias.pointwise  # whole rows take several such tensors to make
        if on_gpu(q) and q.dtype != torch.float64 and rows_only:
            return False
        return self.held(q, where, bias) <= (MASK // 8 if rows_only else MASK)

    def held(self, q: Tensor, where: Where, bias: Bias | None) -> int:
        B, H, N, _ = q.shape
        exact = q.dtype == torch.float64
        whole = bias is not None and (exact or not rides(bias))
        whole = whole or (exact and on_gpu(q))  # no GPU has a flash kernel for it
        cut = samples(q, where)
        if cut is not None:
            return whole * sum(rows.index.numel() * rows.index.shape[1] for rows, _ in cut) * H
        return (whole or where.segment is not None) * B * H * N * N

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        dtype = q.dtype
        if bias is not None and dtype in (torch.bfloat16, torch.float16):
            # the mask has the precision of q, and a bias in 16 bits loses digits; on a CPU float32 is no slower
            q, k, v = q.float(), k.float(), v.float()
        mask = seen(where, 0, q.shape[2])
        if rides(bias) and q.dtype == torch.float32:
            return riding(q, k, v, where, bias, mask, scale).to(dtype)
        if bias is not None:
            total = bias_rows(bias, where, 0, q.shape[2])
            if mask is not None:
                total = total.masked_fill(~mask, -torch.inf)
            # one form for all kernels: they know no broadcast over heads with gradients
            mask = total.to(q.dtype).expand(q.shape[0], q.shape[1], -1, -1)
        width = v.shape[-1]
        v = _as_wide(v, q.shape[-1])  # where something rides on q and k already
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)[..., :width].to(dtype)


def rides(bias: Bias | None) -> TypeGuard[SeparableBias]:
    return isinstance(bias, SeparableBias) and bias.separable


def riding(
    q: Tensor, k: Tensor, v: Tensor, where: Where, bias: SeparableBias, mask: Tensor | None, scale: float
) -> Tensor:
    """With the bias as extra channels of q and k: as many as make the heads' width a multiple of 8."""
    fq, fk = features(where, bias, scale)
    spare = -(q.shape[-1] + fq.shape[-1]) % 8
    q = torch.cat([q, fq.expand(*q.shape[:3], -1), q.new_zeros(1).expand(*q.shape[:3], spare)], dim=-1)
    padding = k.new_zeros(1).expand(*k.shape[:3], spare)
    width, v = v.shape[-1], _as_wide(v, q.shape[-1])
    calls = [] if bias.near is None else bias.near.calls
    outputs = []
    for call, channels in zip(calls or [slice(None)], fk):
        wide = torch.cat([k, channels.expand(*k.shape[:3], -1), padding], dim=-1)
        outputs.append(F.scaled_dot_product_attention(q[:, :, call], wide, v, attn_mask=mask, scale=scale))
    if not calls:
        return outputs[0][..., :width]
    return torch.cat(outputs, dim=2)[:, :, torch.cat(calls).argsort(), :width]


def features(where: Where, bias: SeparableBias, scale: float) -> tuple[Tensor, Tensor]:
    """Return the bias in float32 as extra channels of q and, for each call of attention, of k."""
    fq, fk = bias.features()
    fq = fq / scale
    if where.placed is not None:
        placed = where.placed[:, None, :, None]
        fq, fk = torch.where(placed, fq, 0.0), torch.where(placed, fk, 0.0)
    return fq.float(), fk.float()


def _as_wide(v: Tensor, width: int) -> Tensor:
    """Pad v with zeros to `width` channels: flash attention needs q, k and v equally wide."""
    return v if v.shape[-1] >= width else F.pad(v, (0, width - v.shape[-1]))
