"""Blocks of neighboring tokens: the leaves of a k-d tree, all of equal size."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.tokens import Where

SIZE = 64  # approximate number of tokens in a block


class Blocks(NamedTuple):
    """n blocks of K slots in each of B rows; blocks of tokens without a position come last."""

    tokens: Tensor  # (B, n, K) token index in its row; another token of the block where a slot is empty
    occupied: Tensor  # (B, n, K) False = an empty slot
    low: Tensor  # (B, n, P) bounding box of the positions; arbitrary for empty blocks
    high: Tensor
    free: Tensor  # (B, n) blocks of tokens without a position


def in_blocks(r: Tensor, where: Where, rows: int) -> Blocks:
    """Group the tokens of `rows` rows that are not padding, at positions r (B or 1, N, P)."""
    all_tokens = torch.ones(r.shape[:2], dtype=torch.bool, device=r.device)
    valid = (all_tokens if where.valid is None else where.valid).expand(rows, -1)
    placed = (all_tokens if where.placed is None else where.placed).expand(rows, -1)
    r = r.expand(rows, -1, -1)
    index, occupied = _leaves(*_first(valid & placed), r)
    unplaced, unplaced_mask = _first(valid & ~placed)
    size = max(index.shape[2], min(SIZE, unplaced.shape[1]))
    index, occupied = (F.pad(t, (0, size - t.shape[2])) for t in (index, occupied))
    unplaced, unplaced_mask = (
        F.pad(t, (0, -t.shape[1] % size)).unflatten(1, (-1, size)) for t in (unplaced, unplaced_mask)
    )
    free = torch.cat([torch.zeros_like(occupied[..., 0]), torch.ones_like(unplaced_mask[..., 0])], 1)
    index, occupied = torch.cat([index, unplaced], 1), torch.cat([occupied, unplaced_mask], 1)
    index = torch.where(occupied, index, index[..., :1])
    places = r.gather(1, index.flatten(1)[..., None].expand(-1, -1, r.shape[2])).unflatten(1, index.shape[1:])
    return Blocks(index, occupied, places.amin(2), places.amax(2), free)


def _first(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of the chosen tokens and a mask of real entries, both (B, largest count in a row)."""
    count = int(chosen.sum(1).max())
    index = (~chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]
    return index, chosen.gather(1, index)


def _leaves(index: Tensor, occupied: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Split (B, n) tokens into (B, leaves, K) by repeated halving along the longest axis."""
    B, n = index.shape
    times = max(0, round(math.log2(max(1, n) / SIZE)))
    index, occupied = (F.pad(t, (0, -n % 2**times if n else 1)) for t in (index, occupied))
    nodes, real = index[:, None], occupied[:, None]
    for halved in range(times + 1):  # the last pass only moves empty slots to the end
        places = r.gather(1, nodes.flatten(1)[..., None].expand(-1, -1, r.shape[2])).unflatten(1, nodes.shape[1:])
        size = places.masked_fill(~real[..., None], -math.inf).amax(2) - places.masked_fill(
            ~real[..., None], math.inf
        ).amin(2)
        axis = size.argmax(-1)[:, :, None, None].expand(-1, -1, nodes.shape[2], 1)
        along = places.gather(3, axis)[..., 0].masked_fill(~real, math.inf)
        order = along.argsort(dim=2, stable=True)
        nodes, real = nodes.gather(2, order), real.gather(2, order)
        if halved < times:
            nodes, real = (t.reshape(B, 2 * t.shape[1], -1) for t in (nodes, real))
    return nodes, real
