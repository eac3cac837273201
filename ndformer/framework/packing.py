"""Packed rows as one row per sample: a backbone computes on packed tokens, heads read samples.

tokens = adapter(images)                 # one row for images of all sizes, `where.segment` is the number of the image
tokens = unpacked(backbone(tokens), samples=len(images))      # a row per image, padded to the longest
"""

import math
from dataclasses import replace

import torch

from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Rows, TokenSet, Where, packed_runs


def unpacked(tokens: TokenSet, samples: int) -> TokenSet:
    """Return packed rows as one row for each of `samples` samples, padded to the longest; others as they are.

    Row s has the tokens of segment s, in whichever packed row they are. A GPU synchronizes to read the length of the
    longest sample, and again for the order of `where.grids`.
    """
    segment = tokens.where.segment
    if segment is None:
        return tokens
    flat = torch.where(segment < 0, samples, segment).flatten().long()  # padding becomes one more sample
    place = torch.arange(len(flat), device=flat.device)
    starts = torch.full((samples + 1,), len(flat), device=flat.device).scatter_reduce(0, flat, place, "amin")[:samples]
    lengths = torch.zeros(samples + 1, dtype=torch.int64, device=flat.device).index_add(0, flat, torch.ones_like(flat))
    lengths = lengths[:samples]
    slot = torch.arange(int(lengths.max()), device=flat.device)
    rows = Rows(starts[:, None] + slot, slot < lengths[:, None])
    modality = None if tokens.modality is None else rows.gather(tokens.modality.flatten())
    where = rows.where(tokens.where)
    if tokens.where.grids is not None:
        names = segment.flatten()[tensor_like([start for start, _ in packed_runs(tokens.where)[0]], segment)].tolist()
        grids = dict(zip(names, tokens.where.grids))
        where = replace(where, grids=tuple(grids[i] for i in range(samples)))
    return TokenSet(rows.gather(tokens.features.flatten(0, 1)), where, modality)


def by_grid(tokens: TokenSet) -> list[tuple[list[int], TokenSet]]:
    """Return padded rows with `where.grids` by groups of one grid: the samples of each group and its tokens."""
    where, groups = tokens.where, dict[tuple[int, ...], list[int]]()
    assert where.grids is not None
    for sample, grid in enumerate(where.grids):
        groups.setdefault(grid, []).append(sample)
    before = where.positions.shape[1] - max(map(math.prod, groups))  # class token and registers
    parts = []
    for grid, members in groups.items():
        samples = tensor_like(members, where.positions)
        x, r = (t[samples, : before + math.prod(grid)] for t in (tokens.features, where.positions))
        placed = None if where.placed is None else where.placed[samples, : x.shape[1]]
        parts.append((members, TokenSet(x, Where(r, placed=placed, grid=grid))))
    return parts
