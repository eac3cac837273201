"""Which blocks of queries look at which blocks of keys (block-sparse masks), without a table of all pairs.

Segments are contiguous, so a block of tokens is of the segments from its first to its last, and two blocks look at each
other where these overlap. That is the sum of squares of the segments, and what their ends share a block with.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from ndformer.framework.tokens import Where

BLOCK = 128  # tokens, as FlexAttention has them
_made: WeakKeyDictionary[Where, dict[int, BlockMask]] = WeakKeyDictionary()  # the layers of a model share one


def block_mask(where: Where, batch: int) -> BlockMask | None:
    """For `batch` rows; None where all see all."""
    if where.valid is None:
        return None
    if torch.compiler.is_compiling():
        return _mask(where, batch)
    made = _made.setdefault(where, {})
    if batch not in made:
        made[batch] = _mask(where, batch)
    return made[batch]


def _mask(where: Where, batch: int) -> BlockMask:
    assert where.valid is not None
    valid = buffer(where.valid.expand(batch, -1))
    runs = buffer((valid.int() * 0 if where.segment is None else where.runs().int()).expand(batch, -1))
    some, whole = blocks(valid, runs)
    parts: list[Tensor] = []
    for chosen in (some, whole):
        order = (~chosen).to(torch.uint8).argsort(dim=-1, stable=True)
        parts += [chosen.sum(-1, dtype=torch.int32)[:, None], order.to(torch.int32)[:, None]]

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (valid[b, j] & (runs[b, i] == runs[b, j])) | (i == j)  # padding sees itself: no softmax over nothing

    N = valid.shape[1]
    of: Any = BlockMask.from_kv_blocks
    return of(*parts, BLOCK_SIZE=BLOCK, mask_mod=seen, seq_lengths=(N, N))


def buffer(t: Tensor) -> Tensor:
    """A contiguous tensor that exists: compiling for CPU, torch 2.13 loses captures that the graph itself computes."""
    t = t.contiguous()
    return t.as_strided(t.shape, t.stride()) if torch.compiler.is_compiling() and t.device.type == "cpu" else t


def blocks(valid: Tensor, runs: Tensor) -> tuple[Tensor, Tensor]:
    """(B, N) each -> (B, n, n) the blocks of queries and keys of which some pairs see each other, and those of which
    all do. Queries that are padding see what their neighbours see: their output is dropped."""
    short = -valid.shape[1] % BLOCK
    valid = F.pad(valid, (0, short)).unflatten(1, (-1, BLOCK))
    runs = F.pad(runs, (0, short)).unflatten(1, (-1, BLOCK))
    none = torch.iinfo(runs.dtype).max
    first = torch.where(valid, runs, none).amin(2)  # (B, n)
    last = torch.where(valid, runs, -1).amax(2)
    meet = (first[:, :, None] <= last[:, None]) & (first[:, None] <= last[:, :, None])
    one = first == last
    whole = (one[:, :, None] & (one & valid.all(2))[:, None]) & (last[:, :, None] == last[:, None])
    itself = torch.eye(meet.shape[1], dtype=torch.bool, device=meet.device)
    return (meet | itself) & ~whole, whole
