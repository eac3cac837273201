"""Tokens in blocks of neighbours: a k-d tree's leaves, all of one size."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.tokens import Where

SIZE = 64  # tokens of a block, more or less


class Blocks(NamedTuple):
    """n blocks of K slots in each of B rows: of tokens with a place, then of those without."""

    tokens: Tensor  # (B, n, K) which token of its row; another of its block where a slot is empty
    held: Tensor  # (B, n, K) False = an empty slot
    low: Tensor  # (B, n, P) the box of a block's positions; any for a block of no tokens
    high: Tensor
    free: Tensor  # (B, n) its tokens have no place


def in_blocks(r: Tensor, where: Where, rows: int) -> Blocks:
    """All tokens of `rows` rows that are not padding, at r (B or 1, N, P)."""
    everything = torch.ones(r.shape[:2], dtype=torch.bool, device=r.device)
    valid = (everything if where.valid is None else where.valid).expand(rows, -1)
    placed = (everything if where.placed is None else where.placed).expand(rows, -1)
    r = r.expand(rows, -1, -1)
    index, held = _leaves(*_first(valid & placed), r)
    loose, loosely = _first(valid & ~placed)
    size = max(index.shape[2], min(SIZE, loose.shape[1]))
    index, held = (F.pad(t, (0, size - t.shape[2])) for t in (index, held))
    loose, loosely = (F.pad(t, (0, -t.shape[1] % size)).unflatten(1, (-1, size)) for t in (loose, loosely))
    free = torch.cat([torch.zeros_like(held[..., 0]), torch.ones_like(loosely[..., 0])], 1)
    index, held = torch.cat([index, loose], 1), torch.cat([held, loosely], 1)
    index = torch.where(held, index, index[..., :1])
    places = r.gather(1, index.flatten(1)[..., None].expand(-1, -1, r.shape[2])).unflatten(1, index.shape[1:])
    return Blocks(index, held, places.amin(2), places.amax(2), free)


def _first(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """(B, N) -> the numbers of the chosen tokens and, up to the largest row of them, which are: (B, most) both."""
    most = int(chosen.sum(1).max())
    index = (~chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]
    return index, chosen.gather(1, index)


def _leaves(index: Tensor, held: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """(B, n) tokens -> (B, leaves, K), by halving along the longest axis, again and again."""
    B, n = index.shape
    times = max(0, round(math.log2(max(1, n) / SIZE)))
    index, held = (F.pad(t, (0, -n % 2**times if n else 1)) for t in (index, held))
    nodes, here = index[:, None], held[:, None]
    for halved in range(times + 1):  # the last time only to have empty slots behind
        places = r.gather(1, nodes.flatten(1)[..., None].expand(-1, -1, r.shape[2])).unflatten(1, nodes.shape[1:])
        size = places.masked_fill(~here[..., None], -math.inf).amax(2) - places.masked_fill(
            ~here[..., None], math.inf
        ).amin(2)
        axis = size.argmax(-1)[:, :, None, None].expand(-1, -1, nodes.shape[2], 1)
        along = places.gather(3, axis)[..., 0].masked_fill(~here, math.inf)
        order = along.argsort(dim=2, stable=True)
        nodes, here = nodes.gather(2, order), here.gather(2, order)
        if halved < times:
            nodes, here = (t.reshape(B, 2 * t.shape[1], -1) for t in (nodes, here))
    return nodes, here
