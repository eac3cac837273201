"""CoPE, contextual position encoding: distance is a sum of gates, computed from query and keys (Golovneva 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias, cut_heads
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, sums
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Range
from ndformer.framework.tokens import Rows, Where

Published = Literal["paper", "code", "appendix"]
TableSize = Annotated[int, Range(2, 65536)]


@ENCODINGS.register_module()
class CoPE(PositionEncoding):
    """A bias (q_i . e[p_ij]) / sqrt(h); p_ij sums gates sigmoid(q_i . k_l) over the tokens l from key j to query i.

    Golovneva 2024. The learned table e has an entry for each integer p up to `npos_max` - 1, the maximum of p; other
    values are interpolated. Tokens are sorted by the axes in `order`, the first axis first ('raster': all axes, the
    order of a grid). Tokens at the same position have the same rank. A query attends to no later key, as published;
    with `two_sided` it attends to all, and counts from itself in both directions. `preset='code'` divides the argument
    of the gate by sqrt(h), as the published code does; 'appendix' does so too, and does not divide the bias.

    Weights of a layer: `table` e (h, npos_max).

    Paper: arXiv:2405.18719.
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "float64"
    line_reason = "it counts tokens in an order of the positions, and a circle has none"

    def __init__(
        self,
        *args: Any,
        npos_max: TableSize = 64,
        two_sided: bool = False,
        order: Literal["raster"] | Sequence[Axis] = "raster",
        preset: Published = "paper",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        axes = list(range(self.position_dims)) if order == "raster" else list(order)
        if not axes or len(set(axes)) < len(axes) or not set(axes) <= set(range(self.position_dims)):
            raise ValueError(
                f"order is 'raster' or some of the {self.position_dims} axes, counted from 0, each once, got {order!r}"
            )
        self.npos_max, self.two_sided, self.axes, self.preset = npos_max, two_sided, axes, preset

    def covers(self, span: Span) -> list[Coverage]:
        return [sums("sums of gates", self.npos_max, span.tokens)]

    def tables(self, positions: Tensor, where: Where) -> TokenOrder:
        runs = None if where.segment is None else where.runs()
        return TokenOrder.by([positions[..., axis].detach().contiguous() for axis in self.axes], where.real, runs)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        gate = 1.0 if self.preset == "paper" else self.head_dim**-0.5
        term = 1.0 if self.preset == "appendix" else self.head_dim**-0.5
        return _CoPELayer(self.head_dim, self.npos_max, self.two_sided, gate, term)


class TokenOrder(NamedTuple):
    """The order of the tokens of each row; tokens at the same position share a rank."""

    axes: list[Tensor]  # sort keys (B or 1, N), the most significant first
    counted: Tensor | None  # (B or 1, N), False for tokens without a position, whose gates do not count
    runs: Tensor | None  # (B, N) the sample of each token, where rows are packed
    indices: Tensor  # (B or 1, N) of the tokens, sorted
    start: Tensor  # (B or 1, N) the number of tokens before each token's rank
    end: Tensor  # (B or 1, N) the number of tokens up to each token's rank

    @classmethod
    def by(cls, axes: list[Tensor], counted: Tensor | None, runs: Tensor | None) -> TokenOrder:
        """Sort tokens by several axes."""
        rank = _count_smaller(axes[0])
        for axis in axes[1:]:
            rank = _count_smaller(rank * axis.shape[1] + _count_smaller(axis))
        return cls(axes, counted, runs, rank.argsort(dim=1), rank, rank.shape[1] - _count_smaller(-rank))

    def gate_mask(self, lo: int, hi: int) -> Tensor | None:
        """Return which sorted tokens count for queries lo..hi-1, (B or 1, 1, n or 1, N); None: all do."""
        if self.counted is None:
            return None
        rows = max(len(self.counted), len(self.indices))
        counted = self.counted.expand(rows, -1).gather(1, self.indices.expand(rows, -1))[:, None, None]
        if self.runs is None:
            return counted
        runs = self.runs.gather(1, self.indices)
        return counted & (self.runs[:, None, lo:hi, None] == runs[:, None, None])


def _count_smaller(values: Tensor) -> Tensor:
    """Return for each value (B, N) the number of smaller values in its row."""
    if torch.compiler.is_exporting():  # ONNX has no searchsorted
        return (values[:, None] < values[:, :, None]).sum(-1)
    return torch.searchsorted(values.sort(dim=1).values, values)


class _CoPELayer(LayerEncoding):
    no_weight_decay = ("table",)

    def __init__(self, width: int, npos_max: int, two_sided: bool, gate: float, term: float) -> None:
        super().__init__()
        self.two_sided, self.gate, self.term = two_sided, gate, term
        self.table = nn.Parameter(torch.zeros(width, npos_max))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: TokenOrder) -> Bias:
        exact = torch.promote_types(q.dtype, torch.float32)
        q, k = q.to(exact), k.to(exact)
        return CountBias(q * self.gate, k, q @ self.table.to(exact) * self.term, state, self.two_sided)


class CountBias(Bias):
    """A bias looked up in `values` (B, H, N, npos_max) of the query, at the sum of gates sigmoid(q k') up to a key."""

    term = "count"

    def __init__(self, q: Tensor, k: Tensor, values: Tensor, order: TokenOrder, two_sided: bool) -> None:
        self.q, self.k, self.values, self.order = q, k, values, order
        self.sorted_k = k.gather(2, order.indices[:, None, :, None].expand_as(k))
        self.excludes = not two_sided

    def rows(self, lo: int, hi: int) -> Tensor:
        order, index = self.order, torch.arange(self.k.shape[2], device=self.k.device)
        start, end = order.start[:, None, lo:hi, None], order.end[:, None, lo:hi, None]  # of the queries
        gates = (self.q[:, :, lo:hi] @ self.sorted_k.mT).sigmoid()
        mask = order.gate_mask(lo, hi)
        if mask is not None:
            gates = gates.masked_fill(~mask, 0)
        # sums start at the query, so that small sums are exact in long rows
        backward = gates.masked_fill(index >= end, 0).flip(-1).cumsum(-1).flip(-1)
        backward = backward.gather(-1, _per_key(order.start, gates))
        is_later = order.start[:, None, None] >= end
        if self.excludes:
            return interpolate(self.values[:, :, lo:hi], backward).masked_fill(is_later, -torch.inf)
        forward = gates.masked_fill(index < start, 0).cumsum(-1).gather(-1, _per_key(order.end - 1, gates))
        return interpolate(self.values[:, :, lo:hi], torch.where(is_later, forward, backward))

    def cut(self, rows: Rows) -> Bias:
        q, k, values = (cut_heads(t, rows) for t in (self.q, self.k, self.values))
        counted = rows.valid if self.order.counted is None else rows.gather(self.order.counted.flatten())
        order = TokenOrder.by([rows.gather(axis.flatten()) for axis in self.order.axes], counted, None)
        return CountBias(q, k, values, order, two_sided=not self.excludes)


def _per_key(indices: Tensor, like: Tensor) -> Tensor:
    """Expand (B or 1, N) to (B, H, n, N)."""
    return indices[:, None, None].expand_as(like)


def interpolate(values: Tensor, p: Tensor) -> Tensor:
    """Interpolate values (..., entries) linearly at p (..., n), which is clamped to 0 .. entries - 1."""
    last = values.shape[-1] - 1
    p = p.clamp(0, last)
    lower = p.detach().floor().clamp(max=last - 1)
    share, entry = p - lower, lower.nan_to_num().long()  # a NaN in p makes the share NaN, not the index invalid
    return values.gather(-1, entry) * (1 - share) + values.gather(-1, entry + 1) * share
