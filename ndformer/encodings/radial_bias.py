"""Curves of the distance that learn: KERPLE's, BAM's, Gaussians."""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ndformer.encodings.alibi import alibi_slopes
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.curves import CurveBias, gaussian, logarithm, power
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.encoding.coverage import AUTO, Coverage, Span, gaussians, slope_radii
from ndformer.framework.registry import ENCODINGS

LEAST = 0.01  # of a number that has to stay above 0


@ENCODINGS.register_module()
class RadialBias(PositionEncoding):
    """A curve of the distance d = |r_j - r_i| added to the logits, whose numbers each layer and head learns.

    `curve`: 'log' -p log(1 + a d) and 'power' -a d^p (KERPLE; p is at most 2, a and p start uniform in (0, 1) and
    (0, 2)), 'bam' -(d / a)^p (BAM's, about the query; starts as ALiBi), 'gaussian' -d^2 / 2 a^2 (starts as wide as
    ALiBi's), 'linear' -a d (ALiBi that learns its slopes): their numbers stay above 0.01.
    """

    scaled_positions = "centered"

    def __init__(
        self, *args: Any, curve: Literal["log", "power", "bam", "gaussian", "linear"] = "log", **rest: Any
    ) -> None:
        super().__init__(*args, **rest)
        check_choice("curve", curve, ["log", "power", "bam", "gaussian", "linear"])
        self.curve = curve

    def covers(self, span: Span) -> list[Coverage]:
        if self.curve in ("log", "power"):  # drawn by chance
            return []
        slopes = alibi_slopes(self.heads)
        if self.curve == "gaussian":
            return [gaussians([1 / slope for slope in slopes], span, AUTO)]
        return [slope_radii(slopes, span)]

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Curve(self.curve, self.heads)


class _Curve(LayerEncoding):
    no_weight_decay = ("a", "p")

    def __init__(self, curve: str, heads: int) -> None:
        super().__init__()
        self.curve = curve
        slopes = torch.tensor(alibi_slopes(heads))
        start = {"log": torch.rand(heads), "power": torch.rand(heads), "linear": slopes}
        self.a = nn.Parameter(start.get(curve, 1 / slopes))
        if curve in ("log", "power"):
            self.p = nn.Parameter(2 * torch.rand(heads))
        if curve == "bam":
            self.p = nn.Parameter(torch.ones(heads))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Tensor) -> Bias:
        a = mirrored(self.a.to(state.dtype), LEAST)
        if self.curve == "gaussian":
            return CurveBias(gaussian, [a], state)
        if self.curve == "linear":
            return CurveBias(power, [a, torch.ones_like(a)], state)
        p = mirrored(self.p.to(state.dtype), LEAST, 2.0 if self.curve == "power" else math.inf)
        if self.curve == "bam":
            return CurveBias(power, [a**-p, p], state)
        return CurveBias(logarithm if self.curve == "log" else power, [a, p], state)


def mirrored(number: Tensor, least: float, most: float = math.inf) -> Tensor:
    """Within bounds: what goes beyond one comes back from it, so that it learns on."""
    number = least + (number - least).abs()
    return number if most == math.inf else most - (most - number).abs()


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(RadialBias)
