"""Relative: a bias q_i . r(r_j - r_i) with learned vectors r for relative positions (Shaw 2018, iRPE)."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.encodings.relative_bias import RelativeBias  # noqa: F401  # in this file for one more version
from ndformer.framework.bias.base import Bias, PositionBias, cut_heads, norm, round_to_steps
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import ints_per_axis
from ndformer.framework.encoding.coverage import Coverage, Span, steps
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Ascending, Range, WidthOrNone
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Rows, Where

CLASS_ENTRIES = 3  # for pairs with tokens that have no position: the query, the key, or both
MAX_ENTRIES = 4096  # of a table: each query is multiplied by all of them
Step = Annotated[float, Range(0, 65536, above=True)]
Spans = Annotated[tuple[Step, Step, Step], Ascending()]  # alpha, beta, gamma

IRPE: Spans = (1.9, 3.8, 15.2)
T5: Spans = (8.0, 16.0, 128.0)  # 32 buckets for both sides


class RelativeState(NamedTuple):
    positions: Tensor  # (B or 1, N, P)
    dtype: torch.dtype  # of the bias, unless q has a finer one
    placed: Tensor | None  # (B or 1, N) tokens that have a position; None without class entries


@ENCODINGS.register_module()
class Relative(PositionEncoding):
    """A contextual relative position bias (q_i . r_ij) / sqrt(h), r_ij a learned vector of r_j - r_i (Shaw 2018).

    `method`, how r_ij is made in several dimensions: concatenated from one vector per axis ('split', Ramachandran
    2019), their sum ('cross' of iRPE, Wu 2021), one vector per combination of steps ('product') or per distance
    ('euclidean'). `buckets`, which steps share a vector: all beyond `reach` ('clipped'), or more and more of them with
    growing distance, by `spans` (alpha, beta, gamma), as in iRPE ('piecewise') or T5 ('log'). A step is
    one unit of the scaled positions: choose it with `position_scale`. With `shared` all heads have the same vectors.
    With `class_entries` pairs with a token without a position have vectors too.

    Weights of a layer: `tables`, each (1 or H, width, entries).

    Papers: arXiv:1803.02155, arXiv:1906.05909 ('split'), arXiv:2107.14222 (iRPE), arXiv:1910.10683 (T5).
    """

    float_positions = False
    content_dependent = True
    rotation_invariant = False
    scaled_positions = "float64"
    circular_axes = True

    def __init__(
        self,
        *args: Any,
        method: Literal["split", "cross", "product", "euclidean"] = "split",
        buckets: Literal["clipped", "piecewise", "log"] = "clipped",
        reach: WidthOrNone | Sequence[WidthOrNone] = 16,
        spans: Spans | None = None,
        shared: bool = True,
        class_entries: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        dims, width = self.position_dims, self.head_dim
        max_steps = ints_per_axis(reach, dims, "reach")
        if method == "split" and width < dims:
            raise ValueError(f"heads of {width} do not split over {dims} axes: take method='cross', or wider heads")
        if method == "euclidean":
            max_steps = (max(max_steps),)
            self.rotation_invariant = not any(self.periods) and len(set(self.position_scale)) == 1
        if buckets == "clipped":
            if spans is not None:
                raise ValueError("buckets='clipped' has a reach, spans are of 'piecewise' and 'log': take one of these")
            step_buckets = [clipped_buckets(max_step) for max_step in max_steps]
        else:
            scheme, default = (piecewise_buckets, IRPE) if buckets == "piecewise" else (log_buckets, T5)
            step_buckets = [scheme(default if spans is None else spans)] * len(max_steps)
        self.method, self.step_buckets, self.class_entries = method, step_buckets, class_entries
        largest = [bucket[-1] for bucket in step_buckets]
        sizes = [n + 1 for n in largest] if method == "euclidean" else [2 * n + 1 for n in largest]
        sizes = [math.prod(sizes)] if method == "product" else sizes
        if max(sizes) > MAX_ENTRIES:
            raise ValueError(
                f"a table of {max(sizes)} entries, {MAX_ENTRIES} at most: take method='cross', or a smaller reach"
            )
        widths = [width] * len(sizes)
        if method == "split":
            widths = [width // dims] * (dims - 1) + [width - width // dims * (dims - 1)]
        self.shapes = [
            (1 if shared else self.heads, w, n + CLASS_ENTRIES * class_entries) for w, n in zip(widths, sizes)
        ]

    @property
    def initial_radius(self) -> float | None:
        return float(max(bucket.index(bucket[-1]) for bucket in self.step_buckets))  # then all share one vector

    def covers(self, span: Span) -> list[Coverage]:
        if self.method == "euclidean":
            span = span._replace(extent=(math.hypot(*span.extent),), step=(span.nearest,))
        first_steps = [[buckets.index(n) for n in sorted(set(buckets))] for buckets in self.step_buckets]
        one_step_each = all(buckets == list(range(len(buckets))) for buckets in self.step_buckets)
        hint = "reach={}" if one_step_each else "spans that end at {}"
        return steps([first[-1] for first in first_steps], first_steps, span, hint)

    def tables(self, positions: Tensor, where: Where) -> RelativeState:
        return RelativeState(positions, where.positions.dtype, where.placed if self.class_entries else None)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        step_buckets = [Constant(buckets) for buckets in self.step_buckets]
        return self.on_axes(_RelativeLayer(self.shapes, step_buckets, self.method, self.class_entries))


class _RelativeLayer(LayerEncoding):
    no_weight_decay = ("tables",)

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], step_buckets: Sequence[Constant], method: str, class_entries: bool
    ) -> None:
        super().__init__()
        self.step_buckets, self.method, self.class_entries = step_buckets, method, class_entries
        self.tables = nn.ParameterList([nn.init.trunc_normal_(torch.empty(shape), std=0.02) for shape in shapes])

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: RelativeState) -> Bias:
        exact = torch.promote_types(q.dtype, state.dtype)
        widths = [table.shape[1] for table in self.tables]
        parts = q.to(exact).split(widths, -1) if self.method == "split" else [q.to(exact)] * len(widths)
        scores = [part @ table.to(exact) * q.shape[-1] ** -0.5 for part, table in zip(parts, self.tables)]
        return VectorBias(scores, self.step_buckets, self.method, state, self.class_entries)


class VectorBias(PositionBias):
    """A bias looked up in `scores` (B, H, N, entries), the products of each query with all entries of the tables."""

    term = "relative"

    def __init__(
        self,
        scores: Sequence[Tensor],
        step_buckets: Sequence[Constant],
        method: str,
        state: RelativeState,
        handles_unplaced: bool,
    ) -> None:
        super().__init__(state.positions)
        self.scores = [score.contiguous() for score in scores]
        self.step_buckets, self.method, self.handles_unplaced = step_buckets, method, handles_unplaced
        self.buckets = [buckets(state.positions) for buckets in step_buckets]
        self.placed = None if state.placed is None else state.placed.contiguous()

    def _entries(self, dr: Sequence[Tensor], query_placed: Tensor | None, key_placed: Tensor | None) -> list[Tensor]:
        """Return the index into each table for pairs with differences dr = r_j - r_i."""
        if self.method == "euclidean":
            entries = [self._bucket(0, norm(dr))]
        else:
            entries = [torch.where(d < 0, -1, 1) * self._bucket(p, d.abs()) for p, d in enumerate(dr)]
            largest = [buckets.values[-1] for buckets in self.step_buckets]
            entries = [bucket + n for bucket, n in zip(entries, largest)]
            if self.method == "product":
                joint = entries[0]
                for bucket, n in zip(entries[1:], largest[1:]):
                    joint = joint * (2 * n + 1) + bucket
                entries = [joint]
        if query_placed is None or key_placed is None:
            return entries
        class_entry = torch.where(key_placed, 0, torch.where(query_placed, 1, 2))  # these come last in a table
        return [
            torch.where(query_placed & key_placed, entry, score.shape[-1] - CLASS_ENTRIES + class_entry)
            for entry, score in zip(entries, self.scores)
        ]

    def _bucket(self, p: int, distance: Tensor) -> Tensor:
        last = len(self.buckets[p]) - 1
        return self.buckets[p][round_to_steps(distance).clamp(max=last).long()]

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        query_placed = key_placed = None
        if self.placed is not None:
            row = b if self.placed.shape[0] > 1 else torch.zeros_like(b)
            query_placed, key_placed = self.placed[row, i], self.placed[row, j]
        dr = [self.difference(p, b, i, j) for p in range(len(self.axes))]
        entries = self._entries(dr, query_placed, key_placed)
        values = [score[b, h, i, entry] for score, entry in zip(self.scores, entries)]
        return sum(values[1:], values[0])

    def rows(self, lo: int, hi: int) -> Tensor:
        query_placed = key_placed = None
        if self.placed is not None:
            query_placed, key_placed = self.placed[:, lo:hi, None], self.placed[:, None]
        entries = self._entries(self.differences(lo, hi), query_placed, key_placed)  # (B or 1, n, N)
        values = [
            score[:, :, lo:hi].gather(-1, entry[:, None].expand(*score.shape[:2], -1, -1))
            for score, entry in zip(self.scores, entries)
        ]
        return sum(values[1:], values[0])

    def cut(self, rows: Rows) -> Bias:
        scores = [cut_heads(score, rows) for score in self.scores]
        placed = None if self.placed is None else rows.gather(self.placed.flatten())
        state = RelativeState(self.cut_positions(rows), self.scores[0].dtype, placed)
        return VectorBias(scores, self.step_buckets, self.method, state, self.handles_unplaced)


def clipped_buckets(max_step: int) -> list[int]:
    """Return the bucket of the steps 0, 1, 2 ...: one for each step up to `max_step` (Shaw 2018)."""
    return list(range(max_step + 1))


def piecewise_buckets(spans: Spans) -> list[int]:
    """Return a bucket for each step up to alpha, then logarithmic ones, beta at gamma, rounded (iRPE, Wu 2021)."""
    return _logarithmic(spans, lambda value: math.floor(value + 0.5), last=math.floor(spans[1]))


def log_buckets(spans: Spans) -> list[int]:
    """Return a bucket for each step up to alpha, then logarithmic ones below beta, rounded down (T5, Raffel 2020)."""
    return _logarithmic(spans, math.floor, last=math.ceil(spans[1]) - 1)


def _logarithmic(spans: Spans, rounded: Callable[[float], int], last: int) -> list[int]:
    """Return the buckets of the steps up to gamma; all longer steps have the last one.

    They are computed in Python: logarithms of tensors round a power of two down in float32 and not in float64, or the
    reverse.
    """
    alpha, beta, gamma = spans
    if not alpha < beta < gamma:
        raise ValueError(f"alpha, beta and gamma must increase, got {alpha:g}, {beta:g}, {gamma:g}")

    def curve(step: int) -> float:
        return step if step <= alpha else alpha + math.log(step / alpha) / math.log(gamma / alpha) * (beta - alpha)

    # 9 digits: 2.9999999999999996 is 3
    return [min(last, rounded(round(curve(step), 9))) for step in range(math.ceil(gamma) + 1)]
