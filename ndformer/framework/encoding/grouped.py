"""States of a position encoding for packed rows: one for each group of samples of one length or grid.

state = prepare(encoding, where)                        # as encoding.prepare(), or GroupedState for packed rows
x = each_group(encoding.embed, x, state)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ndformer.framework.encoding.base import PositionEncoding
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Rows, Where, packed_rows


class Group(NamedTuple):
    where: Where  # one row per sample
    state: Any
    shape: tuple[int, int]  # samples and tokens, of samples of one length
    padding: Rows | None  # of samples of different lengths: their tokens among those of the group


class SameDraw:
    """prepare() of an encoding for several parts of a batch, with the same random numbers for each.

    Without it, samples of one length would be augmented otherwise than those of another one.
    """

    def __init__(self, encoding: PositionEncoding) -> None:
        self.encoding = encoding
        parts = [part for part in encoding.modules() if isinstance(part, PositionEncoding)]
        self.draws = any(part.augments for part in parts) and not torch.compiler.is_compiling()
        self.start: Tensor | None = None  # of the random numbers

    def prepare(self, where: Where) -> Any:
        if not self.draws:
            return self.encoding.prepare(where)
        device = where.positions.device
        on_cpu = device.type == "cpu"
        if self.start is None:
            self.start = torch.get_rng_state() if on_cpu else torch.cuda.get_rng_state(device)
            return self.encoding.prepare(where)
        with torch.random.fork_rng([] if on_cpu else [device]):
            torch.set_rng_state(self.start) if on_cpu else torch.cuda.set_rng_state(self.start, device)
            return self.encoding.prepare(where)


class GroupedState:
    """States of an encoding for groups of packed samples, which are slices of the tokens in the order of `groups`.

    A slice needs no copy, and the gradient of a split is one concatenation.
    """

    def __init__(self, draw: SameDraw, where: Where, members: Sequence[tuple[Rows, Where]]) -> None:
        self.encoding, self.where, self.draw = draw.encoding, where, draw
        self.groups = [_group(draw, *member) for member in members]
        spans = [span for rows, _ in members for span in rows.spans]
        self.sizes = [sum(length for _, length in rows.spans) for rows, _ in members]
        total = where.positions.shape[:2].numel()
        self.sizes.append(total - sum(self.sizes))  # padding
        self.order = self.inverse = None  # of the tokens, unless groups are slices already
        ends = [0, *(start + length for start, length in spans)]
        if any(start != end for (start, _), end in zip(spans, ends)):
            order = torch.cat([torch.arange(start, start + length) for start, length in spans])
            padding = torch.ones(total, dtype=torch.bool).index_fill(0, order, False).nonzero().squeeze(1)
            order = torch.cat([order, padding])
            self.order, self.inverse = (tensor_like(t, where.positions) for t in (order, order.argsort()))

    @cached_property
    def packed_state(self) -> Any:
        """The state for all tokens of the packed rows at once, with the random numbers of the groups."""
        return self.draw.prepare(self.where)

    def split(self, x: Tensor) -> list[Tensor]:
        """Return x (B, N, C) as rows (R, K, C) of each group."""
        flat = x.flatten(0, 1)
        flat = flat if self.order is None else flat.index_select(0, self.order)
        parts = flat.split(self.sizes)
        return [
            part.unflatten(0, group.shape) if group.padding is None else group.padding.gather(part)
            for part, group in zip(parts, self.groups)
        ]

    def join(self, parts: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
        """Return rows of each group as (B, N, C), the inverse of `split`; padding is 0."""
        flat = [
            part.flatten(0, 1) if group.padding is None else group.padding.scatter(part, size)
            for part, group, size in zip(parts, self.groups, self.sizes)
        ]
        if self.sizes[-1] or not parts:
            like = parts[0] if parts else self.where.positions
            flat.append(like.new_zeros(self.sizes[-1], shape[-1]))
        x = torch.cat(flat)
        return (x if self.inverse is None else x.index_select(0, self.inverse)).reshape(shape)


def prepare(encoding: PositionEncoding, where: Where, draw: SameDraw | None = None) -> Any:
    """Return the state of an encoding; for packed rows one for each group if values are readable or it needs grids."""
    draw = SameDraw(encoding) if draw is None else draw
    if where.segment is None:
        return draw.prepare(where)
    if encoding.needs_grid and where.grids is not None:
        return GroupedState(draw, where, packed_rows(where, by_grid=True))
    if where.cut is None or torch.compiler.is_compiling():  # a graph would be compiled for each combination of sizes
        return draw.prepare(where)
    return GroupedState(draw, where, where.cut)


def each_group(hook: Callable[..., Tensor], x: Tensor, state: Any, *args: Any) -> Tensor:
    """Return hook(x, state, ...) for tokens (B, N, C), computed for each group of packed samples by itself."""
    if not isinstance(state, GroupedState):
        return hook(x, state, *args)
    parts = state.split(x)
    results = [hook(part, group.state, *args) for part, group in zip(parts, state.groups)]
    return x if all(a is b for a, b in zip(results, parts)) else state.join(results, x.shape)


def _group(draw: SameDraw, rows: Rows, where: Where) -> Group:
    lengths = [length for _, length in rows.spans]
    shape = len(lengths), max(lengths)
    state = draw.prepare(where)
    if rows.full:
        return Group(where, state, shape, None)
    firsts = rows.valid.new_tensor([0, *lengths[:-1]], dtype=torch.int64).cumsum(0)  # within the group
    slot = torch.arange(shape[1], device=firsts.device)
    return Group(where, state, shape, Rows(firsts[:, None] + slot * rows.valid, rows.valid))
