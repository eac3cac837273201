"""RelativeBias: a learned bias per head and relative position (Swin; RPE of Point Transformer V3)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.pointwise import TableBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import ints_per_axis
from ndformer.framework.encoding.coverage import Coverage, Span, steps
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import WidthOrNone
from ndformer.framework.tokens import Where


class RelativeBiasState(NamedTuple):
    positions: Tensor  # (B or 1, N, P), whose differences are rounded to integers
    dtype: torch.dtype  # of the bias


@ENCODINGS.register_module()
class RelativeBias(PositionEncoding):
    """A learned bias table[h, r_j - r_i], independent of the content of the tokens.

    One table per axis, summed (RPE of Point Transformer V3), or with `joint` one table for all axes together (Swin).
    `reach` is the largest step of a table, one number or one per axis; keys farther away have its value. A step is one
    unit of the scaled positions: choose it with `position_scale`.

    Weights of a layer: `tables`, each (H, entries).

    Papers: arXiv:2103.14030 (Swin), arXiv:2312.10035 (Point Transformer V3).
    """

    float_positions = False
    rotation_invariant = False
    scaled_positions = "float64"
    circular_axes = True

    def __init__(
        self, *args: Any, reach: WidthOrNone | Sequence[WidthOrNone] = 16, joint: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.max_steps = ints_per_axis(reach, self.position_dims, "reach")
        sizes = [2 * step + 1 for step in self.max_steps]
        self.sizes = [int(torch.tensor(sizes).prod())] if joint else sizes
        if max(self.sizes) > 10**7:
            raise ValueError(f"a joint table of {self.sizes[0]} entries per head: use joint=False or a smaller reach")

    @property
    def initial_radius(self) -> float | None:
        return float(max(self.max_steps))  # all tokens farther away have the same bias

    def covers(self, span: Span) -> list[Coverage]:
        return steps(self.max_steps, [range(step + 1) for step in self.max_steps], span, "reach={}")

    def tables(self, positions: Tensor, where: Where) -> RelativeBiasState:
        return RelativeBiasState(positions, where.positions.dtype)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes(_RelativeBiasLayer(self.heads, self.sizes, self.max_steps))


class _RelativeBiasLayer(LayerEncoding):
    no_weight_decay = ("tables",)

    def __init__(self, heads: int, sizes: Sequence[int], max_steps: Sequence[int]) -> None:
        super().__init__()
        self.max_steps = max_steps
        self.tables = nn.ParameterList([nn.init.trunc_normal_(torch.empty(heads, size), std=0.02) for size in sizes])

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: RelativeBiasState) -> Bias:
        return TableBias([table.to(state.dtype) for table in self.tables], self.max_steps, state.positions)


ENCODINGS.synonyms |= dict.fromkeys(("rpe", "rpb", "relative_position_bias"), "RelativeBias")
