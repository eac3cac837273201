"""Learned vectors for relative positions, which queries ask for: q_i . r(r_j - r_i)."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.encodings.buckets import IRPE, T5, Spans, clipped, log, piecewise
from ndformer.framework.bias.base import Bias, PositionBias, norm, round_to_steps
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.encoding.coverage import Coverage, Span, steps
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import WidthOrNone
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Rows, Where

CLASS = 3  # entries for pairs with unplaced tokens: the query is, the key is, both are
MOST = 4096  # entries of a table: each query is multiplied with them all


class Places(NamedTuple):
    positions: Tensor
    dtype: torch.dtype  # of the bias, or a finer one of q
    placed: Tensor | None  # (B or 1, N), where pairs with unplaced tokens have entries


@ENCODINGS.register_module()
class Relative(PositionEncoding):
    """Relative position representations, contextual: (q_i . r_ij) / sqrt(h), r_ij a learned vector of r_j - r_i.

    `method`: r_ij joins one vector per axis, each for its share of the head ('split', Ramachandran 2019), or sums them
    ('cross', as iRPE calls it), or has one for each combination of steps ('product') or for the distance ('euclidean').
    `buckets` says which steps have one vector: those beyond `reach` ('clipped'), or ever more of them, by `spans`
    (alpha, beta, gamma), as in iRPE ('piecewise') or T5 ('log'). Steps are whole position units: choose them with
    `position_scale`. `shared`: by all heads. `class_entries`: pairs with an unplaced token have vectors too.
    """

    float_positions = False
    content_dependent = True
    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self,
        *args: Any,
        method: Literal["split", "cross", "product", "euclidean"] = "split",
        buckets: Literal["clipped", "piecewise", "log"] = "clipped",
        reach: WidthOrNone | Sequence[WidthOrNone] = 16,
        spans: Spans | None = None,
        shared: bool = True,
        class_entries: bool = False,
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        check_choice("method", method, ("split", "cross", "product", "euclidean"))
        check_choice("buckets", buckets, ("clipped", "piecewise", "log"))
        dims, width = self.position_dims, self.head_dim
        reaches = [reach] * dims if isinstance(reach, int) else list(reach)
        if len(reaches) != dims:
            raise ValueError(f"reach is one number or one per position dimension ({dims}), got {reach}")
        if method == "split" and width < dims:
            raise ValueError(f"heads of {width} do not split over {dims} axes: take method='cross', or wider heads")
        if method == "euclidean":
            reaches = [max(reaches)]
            self.rotation_invariant = True
        if buckets == "clipped":
            if spans is not None:
                raise ValueError("buckets='clipped' has a reach, spans are of 'piecewise' and 'log': take one of these")
            of_steps = [clipped(reach) for reach in reaches]
        else:
            scheme, usual = (piecewise, IRPE) if buckets == "piecewise" else (log, T5)
            of_steps = [scheme(usual if spans is None else spans)] * len(reaches)
        self.method, self.of_steps, self.class_entries = method, of_steps, class_entries
        tops = [found[-1] for found in of_steps]
        sizes = [top + 1 for top in tops] if method == "euclidean" else [2 * top + 1 for top in tops]
        sizes = [math.prod(sizes)] if method == "product" else sizes
        if max(sizes) > MOST:
            raise ValueError(
                f"a table of {max(sizes)} entries, {MOST} at most: take method='cross', or a smaller reach"
            )
        widths = [width] * len(sizes)
        if method == "split":
            widths = [width // dims] * (dims - 1) + [width - width // dims * (dims - 1)]
        self.shapes = [(1 if shared else self.heads, w, n + CLASS * class_entries) for w, n in zip(widths, sizes)]

    @property
    def initial_radius(self) -> float | None:
        return float(max(found.index(found[-1]) for found in self.of_steps))  # farther ones share a vector

    def covers(self, span: Span) -> list[Coverage]:
        if self.method == "euclidean":
            span = span._replace(extent=(math.hypot(*span.extent),), step=(span.nearest,))
        begins = [[found.index(bucket) for bucket in sorted(set(found))] for found in self.of_steps]
        simple = all(found == list(range(len(found))) for found in self.of_steps)
        return steps([of[-1] for of in begins], begins, span, "reach={}" if simple else "spans that end at {}")

    def tables(self, positions: Tensor, where: Where) -> Places:
        return Places(positions, where.positions.dtype, where.placed if self.class_entries else None)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Vectors(self.shapes, [Constant(found) for found in self.of_steps], self.method, self.class_entries)


class _Vectors(LayerEncoding):
    no_weight_decay = ("tables",)

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], of_steps: Sequence[Constant], method: str, class_entries: bool
    ) -> None:
        super().__init__()
        self.of_steps, self.method, self.class_entries = of_steps, method, class_entries
        self.tables = nn.ParameterList([nn.init.trunc_normal_(torch.empty(shape), std=0.02) for shape in shapes])

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Places) -> Bias:
        exact = torch.promote_types(q.dtype, state.dtype)
        widths = [table.shape[1] for table in self.tables]
        parts = q.to(exact).split(widths, -1) if self.method == "split" else [q.to(exact)] * len(widths)
        scores = [part @ table.to(exact) * q.shape[-1] ** -0.5 for part, table in zip(parts, self.tables)]
        return VectorBias(scores, self.of_steps, self.method, state, self.class_entries)


class VectorBias(PositionBias):
    """Of each query the products with all entries of the tables, (B, H, N, entries): pairs look theirs up."""

    term = "relative"

    def __init__(
        self,
        scores: Sequence[Tensor],
        of_steps: Sequence[Constant],
        method: str,
        places: Places,
        handles_unplaced: bool,
    ) -> None:
        super().__init__(places.positions)
        self.scores = [score.contiguous() for score in scores]
        self.of_steps, self.method, self.handles_unplaced = of_steps, method, handles_unplaced
        self.buckets = [found(places.positions) for found in of_steps]
        self.placed = None if places.placed is None else places.placed.contiguous()

    def _entries(self, dr: Sequence[Tensor], here: Tensor | None, there: Tensor | None) -> list[Tensor]:
        """Which one each table has for pairs r_j - r_i apart; whether their query and key are placed."""
        if self.method == "euclidean":
            found = [self._bucket(0, norm(dr))]
        else:
            found = [torch.where(d < 0, -1, 1) * self._bucket(p, d.abs()) for p, d in enumerate(dr)]
            tops = [found.values[-1] for found in self.of_steps]
            found = [bucket + top for bucket, top in zip(found, tops)]
            if self.method == "product":
                joint = found[0]
                for bucket, top in zip(found[1:], tops[1:]):
                    joint = joint * (2 * top + 1) + bucket
                found = [joint]
        if here is None or there is None:
            return found
        which = torch.where(there, 0, torch.where(here, 1, 2))  # of the class entries, which stand last
        return [
            torch.where(here & there, entry, score.shape[-1] - CLASS + which)
            for entry, score in zip(found, self.scores)
        ]

    def _bucket(self, p: int, distance: Tensor) -> Tensor:
        last = len(self.buckets[p]) - 1
        return self.buckets[p][round_to_steps(distance).clamp(max=last).long()]

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        here = there = None
        if self.placed is not None:
            row = b if self.placed.shape[0] > 1 else torch.zeros_like(b)
            here, there = self.placed[row, i], self.placed[row, j]
        entries = self._entries([self.difference(p, b, i, j) for p in range(len(self.axes))], here, there)
        values = [score[b, h, i, entry] for score, entry in zip(self.scores, entries)]
        return sum(values[1:], values[0])

    def rows(self, lo: int, hi: int) -> Tensor:
        here = there = None
        if self.placed is not None:
            here, there = self.placed[:, lo:hi, None], self.placed[:, None]
        entries = self._entries(self.differences(lo, hi), here, there)  # (B or 1, n, N)
        values = [
            score[:, :, lo:hi].gather(-1, entry[:, None].expand(*score.shape[:2], -1, -1))
            for score, entry in zip(self.scores, entries)
        ]
        return sum(values[1:], values[0])

    def cut(self, rows: Rows) -> Bias:
        scores = [rows.gather(score.transpose(1, 2).flatten(0, 1)).transpose(1, 2) for score in self.scores]
        placed = None if self.placed is None else rows.gather(self.placed.flatten())
        places = Places(self.cut_positions(rows), self.scores[0].dtype, placed)
        return VectorBias(scores, self.of_steps, self.method, places, self.handles_unplaced)


def __getattr__(name: str) -> Any:
    """RelativeBias was in a file of this name: for one more version."""
    if name == "RelativeBias":
        from ndformer.encodings.relative_bias import RelativeBias

        return RelativeBias
    raise AttributeError(f"module {__name__} has no attribute '{name}'")


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(Relative)
