"""The reference backend: all logits in float32 or float64, a chunk of queries at a time.

Chunks are recomputed in the backward pass, so memory grows with N instead of N^2.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ndformer.framework.bias.base import Bias
from ndformer.framework.kernels.backend import Backend
from ndformer.framework.kernels.masks import attention_mask, bias_rows
from ndformer.framework.tokens import Where

CHUNK = 2**23  # logits in memory at a time: 32 MiB in float32


class Dense(Backend):
    """The backend that supports every call."""

    name = "dense"

    def pairs_in_memory(self, q: Tensor, where: Where, bias: Bias | None) -> int:
        B, H, N, _ = q.shape
        return B * H * N * min(N, _chunk_size(q))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        dtype = q.dtype
        exact = torch.promote_types(dtype, torch.float32)
        k, v = k.to(exact), v.to(exact)
        N, size = q.shape[2], _chunk_size(q)

        def chunk(lo: int, hi: int) -> Tensor:
            return logits(q[:, :, lo:hi].to(exact), k, where, bias, scale, lo, hi).softmax(-1).to(exact) @ v

        if size >= N:
            return chunk(0, N).to(dtype)
        chunks = [(lo, min(lo + size, N)) for lo in range(0, N, size)]
        return torch.cat([checkpoint(chunk, lo, hi, use_reentrant=False).to(dtype) for lo, hi in chunks], dim=2)


def _chunk_size(q: Tensor) -> int:
    B, H, N, _ = q.shape
    return max(1, CHUNK // max(1, B * H * N))


def logits(q: Tensor, k: Tensor, where: Where, bias: Bias | None, scale: float, lo: int, hi: int) -> Tensor:
    """Return (B, H, hi - lo, N) for queries lo..hi-1; masked keys are -inf."""
    total = q @ k.mT * scale
    if bias is not None:
        total = total + bias_rows(bias, where, lo, hi)
    mask = attention_mask(where, lo, hi)
    return total if mask is None else total.masked_fill(~mask, -torch.inf)
