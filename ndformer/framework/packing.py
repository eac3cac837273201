"""Packed rows as one row per sample, and back: a backbone computes on packed tokens, heads read samples.

tokens = adapter(images)                 # one row for images of all sizes, `where.segment` is the number of the image
tokens = unpacked(backbone(tokens), samples=len(images))      # a row per image, padded to the longest
tokens = packed(tokens, grids, number)   # one row again, without padding
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Rows, TokenSet, Where, packed_runs


def unpacked(tokens: TokenSet, samples: int) -> TokenSet:
    """Return packed rows as one row for each of `samples` samples, padded to the longest; fewer rows get empty ones.

    Row s has the tokens of segment s, in whichever packed row they are. A GPU synchronizes to read the length of the
    longest sample, and again for the order of `where.grids`.
    """
    segment = tokens.where.segment
    if segment is None:
        return _with_empty_rows(tokens, samples - len(tokens.features))
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
        grids = grids_by_sample(tokens.where)
        if len(grids) == samples:  # a sample without tokens has no grid
            where = replace(where, grids=tuple(grids[i] for i in range(samples)))
    return TokenSet(rows.gather(tokens.features.flatten(0, 1)), where, modality)


def _with_empty_rows(tokens: TokenSet, count: int) -> TokenSet:
    """Append rows of padding, for the last samples of a batch if they have no tokens."""
    if count <= 0:
        return tokens
    where, (B, N) = tokens.where, tokens.features.shape[:2]

    def longer(t: Tensor) -> Tensor:
        return F.pad(t.expand(B, *t.shape[1:]), (*[0, 0] * (t.dim() - 1), 0, count))

    valid = torch.ones(B, N, dtype=torch.bool, device=tokens.features.device) if where.valid is None else where.valid
    fields = dict(placed=where.placed, objects=where.objects, cameras=where.cameras)
    labels: dict[str, Any] = {name: longer(t) for name, t in fields.items() if t is not None}
    modality = None if tokens.modality is None else longer(tokens.modality)
    return TokenSet(longer(tokens.features), Where(longer(where.positions), longer(valid), **labels), modality)


def packed(tokens: TokenSet, grids: Sequence[tuple[int, ...]], number: Tensor) -> TokenSet:
    """Return rows (B, N) as one packed row without padding: row b is segment number[b], and its tokens end in grids[b].

    The numbers are all different. A GPU synchronizes to read where the padding is.
    """
    where, (B, N) = tokens.where, tokens.features.shape[:2]
    real = torch.ones(B, N, dtype=torch.bool, device=number.device)
    real = real if where.valid is None else where.valid.expand(B, N)

    def row(t: Tensor) -> Tensor:
        return t.expand(B, *t.shape[1:])[real][None]

    fields = dict(placed=where.placed, objects=where.objects, cameras=where.cameras)
    labels: dict[str, Any] = {name: row(t) for name, t in fields.items() if t is not None}
    segment = row(number[:, None].expand(B, N))
    modality = None if tokens.modality is None else row(tokens.modality)
    packed_where = Where(row(where.positions), segment=segment, grids=tuple(grids), **labels)
    return TokenSet(row(tokens.features), packed_where, modality)


def grids_by_sample(where: Where) -> dict[int, tuple[int, ...]]:
    """Return the grid of each sample of packed rows with `where.grids`. A GPU synchronizes to read their order."""
    assert where.segment is not None
    assert where.grids is not None
    starts = tensor_like([start for start, _ in packed_runs(where)[0]], where.segment)
    return dict(zip(where.segment.flatten()[starts].tolist(), where.grids))


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


def grid_cells(grids: Sequence[tuple[int, ...]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the place (T, P) of the cells of all grids, the shape (T, P) of their grid and its number (T,).

    The cells of a grid are in row-major order. The number of operations does not depend on that of grids, since the
    host of a GPU needs microseconds for each.
    """
    counts = [math.prod(grid) for grid in grids]
    starts = list(accumulate(counts, initial=0))
    facts = torch.tensor([(*grid, count, start) for grid, count, start in zip(grids, counts, starts)])
    facts = facts.to(device, non_blocking=True)  # (S, P + 2)
    number = torch.arange(len(grids), device=device).repeat_interleave(facts[:, -2], output_size=starts[-1])
    facts = facts[number]
    shapes, place = facts[:, :-2], torch.arange(starts[-1], device=device) - facts[:, -1]
    axes: list[Tensor] = []
    for sizes in shapes.unbind(1)[::-1]:
        axes.insert(0, place % sizes)
        place = place // sizes
    return torch.stack(axes, -1), shapes, number
