"""Block masks for FlexAttention, computed without a table of all pairs.

Segments are contiguous, so a block of tokens covers the segments from its first to its last token, and two blocks
attend to each other if these ranges overlap.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from ndformer.framework.tokens import Where

BLOCK = 128  # tokens, the block size of FlexAttention
_cache: WeakKeyDictionary[Where, dict[int, BlockMask]] = WeakKeyDictionary()  # shared by the layers of a model


def block_mask(where: Where, batch: int) -> BlockMask | None:
    """Return the block mask for `batch` rows; None if all keys are visible."""
    if where.valid is None:
        return None
    if torch.compiler.is_compiling():
        return _mask(where, batch)
    masks = _cache.setdefault(where, {})
    if batch not in masks:
        masks[batch] = _mask(where, batch)
    return masks[batch]


def _mask(where: Where, batch: int) -> BlockMask:
    assert where.valid is not None
    valid = buffer(where.valid.expand(batch, -1))
    runs = buffer((valid.int() * 0 if where.segment is None else where.runs().int()).expand(batch, -1))
    partial, full = blocks(valid, runs)
    parts: list[Tensor] = []
    for chosen in (partial, full):
        order = (~chosen).to(torch.uint8).argsort(dim=-1, stable=True)
        parts += [chosen.sum(-1, dtype=torch.int32)[:, None], order.to(torch.int32)[:, None]]

    def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (valid[b, j] & (runs[b, i] == runs[b, j])) | (
            i == j
        )  # padding attends to itself: a softmax without keys is NaN

    N = valid.shape[1]
    create: Any = BlockMask.from_kv_blocks
    return create(*parts, BLOCK_SIZE=BLOCK, mask_mod=mask_mod, seq_lengths=(N, N))


def buffer(t: Tensor) -> Tensor:
    """Return a contiguous, materialized tensor: compiling for CPU, torch 2.13 loses captures computed in the graph."""
    t = t.contiguous()
    return t.as_strided(t.shape, t.stride()) if torch.compiler.is_compiling() and t.device.type == "cpu" else t


def blocks(valid: Tensor, runs: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B, n, n) masks of partially and of fully visible pairs of blocks, from (B, N) valid and runs.

    Padding queries attend to the same keys as their neighbors; their output is dropped.
    """
    padding = -valid.shape[1] % BLOCK
    valid = F.pad(valid, (0, padding)).unflatten(1, (-1, BLOCK))
    runs = F.pad(runs, (0, padding)).unflatten(1, (-1, BLOCK))
    largest = torch.iinfo(runs.dtype).max
    first = torch.where(valid, runs, largest).amin(2)  # (B, n)
    last = torch.where(valid, runs, -1).amax(2)
    meet = (first[:, :, None] <= last[:, None]) & (first[:, None] <= last[:, :, None])
    single = first == last
    full = (single[:, :, None] & (single & valid.all(2))[:, None]) & (last[:, :, None] == last[:, None])
    itself = torch.eye(meet.shape[1], dtype=torch.bool, device=meet.device)
    return (meet | itself) & ~full, full
