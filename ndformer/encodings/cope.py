"""CoPE, contextual position encoding: distance is counted in tokens that matter to the query (Golovneva 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.encoding.coverage import Coverage, Span, sums
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Range
from ndformer.framework.tokens import Rows, Where

Published = Literal["paper", "code", "appendix"]
Counts = Annotated[int, Range(2, 65536)]


@ENCODINGS.register_module()
class CoPE(PositionEncoding):
    """(q_i . e[p_ij]) / sqrt(h), where p_ij adds up gates sigmoid(q_i . k_l) of the tokens l from key j to query i.

    e has an entry for each whole p up to `npos_max` - 1, where p ends; what is between two is interpolated. Tokens need
    an order: that of their positions along the axes in `order`, the first before the second and so on ('raster': all
    axes, which is the order of a grid). Tokens at the same place count together. A query sees no later key, as
    published; `two_sided` counts from the query both ways and hides none. `preset`: 'code' divides what a gate is of
    by sqrt(h); 'appendix' does, and leaves the bias undivided.
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self,
        *args: Any,
        npos_max: Counts = 64,
        two_sided: bool = False,
        order: Literal["raster"] | Sequence[Axis] = "raster",
        preset: Published = "paper",
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        axes = list(range(self.position_dims)) if order == "raster" else list(order)
        if not axes or len(set(axes)) < len(axes) or not set(axes) <= set(range(self.position_dims)):
            raise ValueError(
                f"order is 'raster' or some of the {self.position_dims} axes, counted from 0, each once, got {order!r}"
            )
        check_choice("preset", preset, ("paper", "code", "appendix"))
        self.npos_max, self.two_sided, self.axes, self.preset = npos_max, two_sided, axes, preset

    def covers(self, span: Span) -> list[Coverage]:
        return [sums("sums of gates", self.npos_max, span.tokens)]

    def tables(self, positions: Tensor, where: Where) -> Line:
        runs = None if where.segment is None else where.runs()
        return Line.along([positions[..., axis].detach().contiguous() for axis in self.axes], where.real, runs)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        gate = 1.0 if self.preset == "paper" else self.head_dim**-0.5
        term = 1.0 if self.preset == "appendix" else self.head_dim**-0.5
        return _Counting(self.head_dim, self.npos_max, self.two_sided, gate, term)


class Line(NamedTuple):
    """Tokens one behind the other; those at the same place stand side by side."""

    axes: list[Tensor]  # of (B or 1, N), the first decides, then the second ...
    counted: Tensor | None  # (B or 1, N) False = has no place in it
    runs: Tensor | None  # (B, N) which line, where there are several in a row
    order: Tensor  # (B or 1, N) the tokens from the first to the last
    before: Tensor  # (B or 1, N) how many stand before each token's place
    until: Tensor  # (B or 1, N) and how many not behind it

    @classmethod
    def along(cls, axes: list[Tensor], counted: Tensor | None, runs: Tensor | None) -> Line:
        place = _smaller(axes[0])
        for axis in axes[1:]:
            place = _smaller(place * axis.shape[1] + _smaller(axis))
        return cls(axes, counted, runs, place.argsort(dim=1), place, place.shape[1] - _smaller(-place))

    def counts(self, lo: int, hi: int) -> Tensor | None:
        """(B or 1, 1, n or 1, N) which tokens, in their order, count for queries lo..hi-1; None: all do."""
        if self.counted is None:
            return None
        rows = max(len(self.counted), len(self.order))
        counted = self.counted.expand(rows, -1).gather(1, self.order.expand(rows, -1))[:, None, None]
        if self.runs is None:
            return counted
        runs = self.runs.gather(1, self.order)
        return counted & (self.runs[:, None, lo:hi, None] == runs[:, None, None])


def _smaller(values: Tensor) -> Tensor:
    """(B, N) -> of each value in a row: how many there are smaller."""
    if torch.compiler.is_exporting():  # ONNX cannot search
        return (values[:, None] < values[:, :, None]).sum(-1)
    return torch.searchsorted(values.sort(dim=1).values, values)


class _Counting(LayerEncoding):
    no_weight_decay = ("table",)

    def __init__(self, width: int, npos_max: int, two_sided: bool, gate: float, term: float) -> None:
        super().__init__()
        self.two_sided, self.gate, self.term = two_sided, gate, term
        self.table = nn.Parameter(torch.zeros(width, npos_max))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Line) -> Bias:
        exact = torch.promote_types(q.dtype, torch.float32)
        q, k = q.to(exact), k.to(exact)
        return CountBias(q * self.gate, k, q @ self.table.to(exact) * self.term, state, self.two_sided)


class CountBias(Bias):
    """`values` (B, H, N, counts) of each query at the sum of gates sigmoid(q k') between it and a key."""

    term = "count"

    def __init__(self, q: Tensor, k: Tensor, values: Tensor, line: Line, two_sided: bool) -> None:
        self.q, self.k, self.values, self.line = q, k, values, line
        self.in_line = k.gather(2, line.order[:, None, :, None].expand_as(k))
        self.excludes = not two_sided

    def rows(self, lo: int, hi: int) -> Tensor:
        line, place = self.line, torch.arange(self.k.shape[2], device=self.k.device)
        before, until = line.before[:, None, lo:hi, None], line.until[:, None, lo:hi, None]  # of the queries
        gates = (self.q[:, :, lo:hi] @ self.in_line.mT).sigmoid()
        counted = line.counts(lo, hi)
        if counted is not None:
            gates = gates.masked_fill(~counted, 0)
        # sums begin at the query, so that small ones keep their digits in long rows
        passed = gates.masked_fill(place >= until, 0).flip(-1).cumsum(-1).flip(-1).gather(-1, _keys(line.before, gates))
        later = line.before[:, None, None] >= until
        if self.excludes:
            return interpolated(self.values[:, :, lo:hi], passed).masked_fill(later, -torch.inf)
        ahead = gates.masked_fill(place < before, 0).cumsum(-1).gather(-1, _keys(line.until - 1, gates))
        return interpolated(self.values[:, :, lo:hi], torch.where(later, ahead, passed))

    def cut(self, rows: Rows) -> Bias:
        q, k, values = (
            rows.gather(t.transpose(1, 2).flatten(0, 1)).transpose(1, 2) for t in (self.q, self.k, self.values)
        )
        counted = rows.valid if self.line.counted is None else rows.gather(self.line.counted.flatten())
        line = Line.along([rows.gather(axis.flatten()) for axis in self.line.axes], counted, None)
        return CountBias(q, k, values, line, two_sided=not self.excludes)


def _keys(places: Tensor, like: Tensor) -> Tensor:
    """(B or 1, N) -> (B, H, n, N)."""
    return places[:, None, None].expand_as(like)


def interpolated(values: Tensor, at: Tensor) -> Tensor:
    """(..., entries) between its entries: `at` (..., n) from 0 to the last, where it ends."""
    last = values.shape[-1] - 1
    at = at.clamp(0, last)
    below = at.detach().floor().clamp(max=last - 1)
    share, entry = at - below, below.nan_to_num().long()  # a sample that broke is NaN by its share, not an error
    return values.gather(-1, entry) * (1 - share) + values.gather(-1, entry + 1) * share


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(CoPE)
