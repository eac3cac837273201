"""Learned values for relative positions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.pointwise import TableBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, steps
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import WidthOrNone
from ndformer.framework.tokens import Where


class Steps(NamedTuple):
    positions: Tensor  # (B or 1, N, P), of which differences are rounded
    dtype: torch.dtype  # of the bias


@ENCODINGS.register_module()
class RelativeBias(PositionEncoding):
    """A learned bias per head and step of r_j - r_i, whatever the tokens hold.

    One table per axis, summed (Point Transformer V3's RPE), or with `joint` one for all axes together (Swin). `reach`
    is the largest step, one number or one per axis; farther keys share its value. Steps are whole position units:
    choose them with `position_scale`.
    """

    float_positions = False
    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self, *args: Any, reach: WidthOrNone | Sequence[WidthOrNone] = 16, joint: bool = False, **rest: Any
    ) -> None:
        super().__init__(*args, **rest)
        self.reach = (reach,) * self.position_dims if isinstance(reach, int) else tuple(reach)
        if len(self.reach) != self.position_dims:
            raise ValueError(f"reach is one number or one per position dimension ({self.position_dims}), got {reach}")
        steps = [2 * r + 1 for r in self.reach]
        self.sizes = [int(torch.tensor(steps).prod())] if joint else steps
        if max(self.sizes) > 10**7:
            raise ValueError(f"a joint table of {self.sizes[0]} entries per head: use joint=False or a smaller reach")

    @property
    def initial_radius(self) -> float | None:
        return float(max(self.reach))  # farther ones share a number

    def covers(self, span: Span) -> list[Coverage]:
        return steps(self.reach, [range(reach + 1) for reach in self.reach], span, "reach={}")

    def tables(self, positions: Tensor, where: Where) -> Steps:
        return Steps(positions, where.positions.dtype)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Tables(self.heads, self.sizes, self.reach)


class _Tables(LayerEncoding):
    no_weight_decay = ("tables",)

    def __init__(self, heads: int, sizes: Sequence[int], reach: Sequence[int]) -> None:
        super().__init__()
        self.reach = reach
        self.tables = nn.ParameterList([nn.init.trunc_normal_(torch.empty(heads, size), std=0.02) for size in sizes])

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Steps) -> Bias:
        return TableBias([table.to(state.dtype) for table in self.tables], self.reach, state.positions)


ENCODINGS.synonyms |= dict.fromkeys(("rpe", "rpb", "relative_position_bias"), "RelativeBias")


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(RelativeBias)
