"""Flash attention: torch's scaled_dot_product_attention, with the bias in one of three forms.

no bias      q and k unchanged
channels     a separable bias as a few extra channels of q and k, almost as fast as without bias; in float32, and only
             if the encoding finds the extent of the positions small enough
mask         the bias of all pairs, in float32
"""

from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import SeparableBias
from ndformer.framework.kernels.backend import Backend, on_gpu, samples
from ndformer.framework.kernels.masks import attention_mask, bias_rows
from ndformer.framework.tokens import Where

MASK = 2**26  # maximum elements of a bias for all pairs: 256 MiB in float32
SHORT = 512  # on a CPU, attention of fewer tokens and its gradients take 1.3 to 10 times as long in 16 bits


class SDPA(Backend):
    """torch's kernel, preferred unless the bias or mask of all pairs would be too large."""

    name = "sdpa"

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        if torch.compiler.is_exporting():
            return True  # an exported graph runs at any batch and image size with one backend
        rows_only = bias is not None and not bias.pointwise  # computing rows takes several tensors of that size
        if on_gpu(q) and q.dtype != torch.float64 and rows_only:
            return False
        return self.pairs_in_memory(q, where, bias) <= (MASK // 8 if rows_only else MASK)

    def pairs_in_memory(self, q: Tensor, where: Where, bias: Bias | None) -> int:
        B, H, N, _ = q.shape
        exact = q.dtype == torch.float64
        dense = bias is not None and (exact or not is_separable(bias))
        dense = dense or (exact and on_gpu(q))  # no GPU has a flash kernel for float64
        cut = samples(q, where)
        if cut is not None:
            return dense * sum(rows.index.numel() * rows.index.shape[1] for rows, _ in cut) * H
        return (dense or where.segment is not None) * B * H * N * N

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        dtype = q.dtype
        half = dtype in (torch.bfloat16, torch.float16)  # first: float32 graphs must fit any length
        if half and (bias is not None or (not on_gpu(q) and q.requires_grad and q.shape[2] <= SHORT)):
            # the mask has the dtype of q, and 16 bits are too few for a bias; on a CPU float32 is not slower
            q, k, v = q.float(), k.float(), v.float()
        mask = attention_mask(where, 0, q.shape[2])
        if is_separable(bias) and q.dtype == torch.float32:
            return attend_with_channels(q, k, v, where, bias, mask, scale).to(dtype)
        if bias is not None:
            total = bias_rows(bias, where, 0, q.shape[2])
            if mask is not None:
                total = total.masked_fill(~mask, -torch.inf)
            # expanded because kernels do not support a broadcast over heads with gradients
            mask = total.to(q.dtype).expand(q.shape[0], q.shape[1], -1, -1)
            if not torch.compiler.is_compiling() and is_functorch_wrapped_tensor(mask):
                # vmap hides that a mask requires gradients, so torch would choose a kernel that has none for it
                return ((q @ k.mT * scale + mask).softmax(-1) @ v).to(dtype)
        width = v.shape[-1]
        v = _as_wide(v, q.shape[-1])  # q and k may have extra channels already
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)[..., :width].to(dtype)


def is_separable(bias: Bias | None) -> TypeGuard[SeparableBias]:
    return isinstance(bias, SeparableBias) and bias.separable


def attend_with_channels(
    q: Tensor, k: Tensor, v: Tensor, where: Where, bias: SeparableBias, mask: Tensor | None, scale: float
) -> Tensor:
    """Run attention with the bias as extra channels of q and k, padded to a head width divisible by 8."""
    fq, fk = features(where, bias, scale)
    spare = -(q.shape[-1] + fq.shape[-1]) % 8
    q = torch.cat([q, fq.expand(*q.shape[:3], -1), q.new_zeros(1).expand(*q.shape[:3], spare)], dim=-1)
    padding = k.new_zeros(1).expand(*k.shape[:3], spare)
    width, v = v.shape[-1], _as_wide(v, q.shape[-1])
    calls = [] if bias.local is None else bias.local.calls
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
