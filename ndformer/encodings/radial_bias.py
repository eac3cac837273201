"""RadialBias: a bias that is a curve of the distance with learned parameters (KERPLE, BAM, Gaussian, linear)."""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ndformer.encodings.alibi import alibi_slopes
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.curves import CurveBias, gaussian, logarithm, power
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import AUTO, Coverage, Span, gaussians, slope_radii
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Positive


@ENCODINGS.register_module()
class RadialBias(PositionEncoding):
    """A bias that is a curve of the distance d = |r_j - r_i|, whose parameters a and p each layer and head learns.

    `curve`: 'log' -p log(1 + a d) and 'power' -a d^p with p at most 2 (both KERPLE; a starts uniform in (0, 1) and p in
    (0, 2)); 'bam' -(d / a)^p (BAM with its mean at the query; starts as ALiBi); 'gaussian' -d^2 / (2 a^2) (starts with
    1 / a as ALiBi's slopes); 'linear' -a d (ALiBi with learned slopes).

    Parameters stay above `min_value`: with `bound='reflect'` a value beyond a bound is reflected at it, with 'clamp',
    as in KERPLE's code, it acts as the bound and keeps its gradient.

    Weights of a layer: `a` (H,), and `p` (H,) for 'log', 'power' and 'bam'.

    Papers: arXiv:2205.09921 (KERPLE), arXiv:2505.22842 (BAM).
    """

    scaled_positions = "centered"
    circular_axes = True

    def __init__(
        self,
        *args: Any,
        curve: Literal["log", "power", "bam", "gaussian", "linear"] = "log",
        min_value: Positive = 0.01,
        bound: Literal["reflect", "clamp"] = "reflect",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.curve, self.min_value, self.bound = curve, min_value, bound

    def covers(self, span: Span) -> list[Coverage]:
        if self.curve in ("log", "power"):  # their start is random
            return []
        slopes = alibi_slopes(self.heads)
        if self.curve == "gaussian":
            return [gaussians([1 / slope for slope in slopes], span, AUTO)]
        return [slope_radii(slopes, span)]

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes(_RadialBiasLayer(self.curve, self.heads, self.min_value, self.bound))


class _RadialBiasLayer(LayerEncoding):
    no_weight_decay = ("a", "p")

    def __init__(self, curve: str, heads: int, min_value: float, bound: str) -> None:
        super().__init__()
        self.curve, self.min_value, self.bound = curve, min_value, BOUNDS[bound]
        slopes = torch.tensor(alibi_slopes(heads))
        start = {"log": torch.rand(heads), "power": torch.rand(heads), "linear": slopes}
        self.a = nn.Parameter(start.get(curve, 1 / slopes))
        if curve in ("log", "power"):
            self.p = nn.Parameter(2 * torch.rand(heads))
        if curve == "bam":
            self.p = nn.Parameter(torch.ones(heads))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Tensor) -> Bias:
        a = self.bound(self.a.to(state.dtype), self.min_value)
        if self.curve == "gaussian":
            return CurveBias(gaussian, [a], state)
        if self.curve == "linear":
            return CurveBias(power, [a, torch.ones_like(a)], state)
        p = self.bound(self.p.to(state.dtype), self.min_value, 2.0 if self.curve == "power" else math.inf)
        if self.curve == "bam":
            return CurveBias(power, [a**-p, p], state)
        return CurveBias(logarithm if self.curve == "log" else power, [a, p], state)


def reflect(value: Tensor, low: float, high: float = math.inf) -> Tensor:
    """Return a value within bounds: beyond a bound it is reflected, so that unlike a clamp it has a gradient."""
    value = low + (value - low).abs()
    return value if high == math.inf else high - (high - value).abs()


def clamp(value: Tensor, low: float, high: float = math.inf) -> Tensor:
    """Return a value within bounds; beyond a bound it acts as the bound, with the gradient of the bound."""
    return value + (value.clamp(low, high) - value).detach()


BOUNDS = dict(reflect=reflect, clamp=clamp)
