"""ALiBi: attention falls linearly with distance."""

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
    """2^(-8/n), its square, ... for a power of two n; else those of the power below and every other of the next."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return alibi_slopes(below) + alibi_slopes(2 * below)[0::2][: heads - below]


@ENCODINGS.register_module()
class ALiBi(PositionEncoding):
    """-slope_h |r_j - r_i| added to the logits, with the Euclidean distance (Press 2021; Fuller 2023 for 2-D)."""

    scaled_positions = "centered"

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.slopes = Constant(alibi_slopes(self.heads))

    @property
    def initial_radius(self) -> float | None:
        return 5 / min(self.slopes.values)  # where a token weighs a hundredth

    def covers(self, span: Span) -> list[Coverage]:
        return [slope_radii(self.slopes.values, span)]

    def tables(self, positions: Tensor, where: Where) -> Bias:
        return DistanceBias(self.slopes(positions), positions)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Given()


class _Given(LayerEncoding):
    """The same bias in every layer, made once."""

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias:
        return state


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(ALiBi)
