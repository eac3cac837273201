"""ALiBi, attention with linear biases: logits decrease linearly with distance, at a fixed rate per head."""

import math
from typing import Any

from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.pointwise import DistanceBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, slope_radii
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Where


def alibi_slopes(heads: int) -> list[float]:
    """Return the published slope of each head: 2^(-8 i / n), i = 1 .. n, for a power of two n.

    Other numbers of heads have the slopes of the next lower power, and every other slope of the next higher one.
    """
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)]
    lower = 2 ** math.floor(math.log2(heads))
    return alibi_slopes(lower) + alibi_slopes(2 * lower)[0::2][: heads - lower]


@ENCODINGS.register_module()
class ALiBi(PositionEncoding):
    """A bias -slope_h |r_j - r_i| with the Euclidean distance (Press 2021; Fuller 2023 for 2-D). Nothing is learned.

    Papers: arXiv:2108.12409, arXiv:2311.00566 (2-D).
    """

    scaled_positions = "centered"
    circular_axes = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.slopes = Constant(alibi_slopes(self.heads))

    @property
    def initial_radius(self) -> float | None:
        return 5 / min(self.slopes.values)  # there a token has 1/100 of the weight

    def covers(self, span: Span) -> list[Coverage]:
        return [slope_radii(self.slopes.values, span)]

    def tables(self, positions: Tensor, where: Where) -> Bias:
        return DistanceBias(self.slopes(positions), positions)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes(SharedBiasLayer())


class SharedBiasLayer(LayerEncoding):
    """Returns the state, one bias that all layers share."""

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias:
        return state
