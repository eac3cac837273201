"""The option `init_radius`: the attention radius of each head of a parabolic encoding before training.

Under a bias -|dr|^2 / (2 radius^2) attention alone is a Gaussian with this standard deviation.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.base import not_measured, per_axis, short
from ndformer.framework.encoding.coverage import Coverage, Span, gaussians
from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.registry.ranges import Positive
from ndformer.framework.tokens import Where

MEAN_SOFTPLUS = 0.7344  # E softplus(z), z ~ N(0, 1/3), the distribution of Wa x before training
CUTOFF_RADII = 3.0  # standard deviations, beyond which a token has 1/100 of the weight and hardly a gradient
Radius = Positive | Sequence[Positive] | Literal["spread"]


def head_radii(init_radius: Radius, heads: int, name: str) -> tuple[float, ...]:
    """Return the radius of each head for an option `init_radius` of one number, two, or one for each head."""
    if isinstance(init_radius, str):
        raise ValueError(not_measured(name, "init_radius", init_radius))
    values = [float(init_radius)] * heads if isinstance(init_radius, (int, float)) else [float(r) for r in init_radius]
    if len(values) == 2:
        first, last = values
        return tuple(first * (last / first) ** (h / max(1, heads - 1)) for h in range(heads))
    if len(values) != heads:
        raise ValueError(
            f"init_radius of {name} is one number, two (of the first head and the last) or one for each of the {heads} "
            f"heads, got {len(values)}"
        )
    return tuple(values)


class InitialRadiusEncoding(PositionEncoding):
    """Base class of encodings with an option `init_radius`; with 'spread' the radii are measured on the first batch."""

    radii: tuple[float, ...]  # one for each head; empty without init_radius

    @classmethod
    def from_data(cls, options: dict[str, Any], wheres: Sequence[Where] | None) -> dict[str, Any]:
        options = super().from_data(options, wheres)
        if options.get("init_radius") != "spread":
            return options
        spacing = None
        if wheres is not None:
            scale = per_axis(options.get("position_scale", 1.0), wheres[0].positions.shape[2], "position_scale")
            spacing = Spacing.measure(wheres, scale)
        if spacing is None:
            return options | {"init_radius": 1.0}
        return options | {"init_radius": [short(spacing.nearest), short(max(spacing.nearest, spacing.extent / 2))]}

    @property
    def initial_curvature(self) -> float:
        """The curvature c before training, in the narrowest head: attention is exp(-c |dr|^2)."""
        return self.radius_curvature

    @property
    def radius_curvature(self) -> float:
        """`initial_curvature` with init_radius; torch.compile cannot call super().initial_curvature instead."""
        return 0.5 / min(self.radii) ** 2

    @property
    def initial_radius(self) -> float | None:
        return CUTOFF_RADII * max(self.radii) if self.radii else None

    def covers(self, span: Span) -> list[Coverage]:
        if self.initial_radius is None:
            return []
        first, last = short(span.nearest), short(max(span.nearest, max(span.extent) / 2))
        lengths = self.radii or [self.initial_radius / CUTOFF_RADII] * self.heads
        return [gaussians(lengths, span, f"init_radius=[{first:g}, {last:g}], which is 'spread'")]


def gram_diagonal(radius: Tensor, head_dim: int) -> Tensor:
    """Return the diagonal of Wp' Wp for which attention starts as exp(-dr^2 / (2 radius^2))."""
    return math.sqrt(head_dim) / (2 * radius**2 * MEAN_SOFTPLUS)


def offset_init(wp: Tensor, radius: Tensor, head_dim: int, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return Wp (H, m, P) and offsets a0, b0 (H, m) with which the bias starts as -|dr - mu|^2 / (2 radius^2).

    Wp has the paper's size and orthogonal columns. mu is one radius long, in another direction for each head and layer.
    The bias differs from this by a constant, which softmax ignores.
    """
    heads, m, P = wp.shape
    wp = torch.linalg.qr(wp).Q * math.sqrt(m / (3 * P))
    share = 3 * P / m * math.sqrt(head_dim)
    a0 = _softplus_mean_inverse(share / (2 * radius**2))[:, None].expand(heads, m).clone()
    mu = radius[:, None] * unit_directions(layer * heads, heads, P)
    return wp, a0, share * torch.einsum("hmp,hp->hm", wp, mu / radius[:, None] ** 2)


def unit_directions(first: int, count: int, dims: int) -> Tensor:
    """Return (count, dims) unit vectors, from index `first` of a low-discrepancy sequence on the sphere.

    They are normalized Gaussian quantiles of multiples of powers of the generalized golden ratio.
    """
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (dims + 1))
    powers = golden ** -torch.arange(1.0, dims + 1, dtype=torch.float64)
    z = torch.arange(first + 1, first + count + 1, dtype=torch.float64)[:, None] * powers % 1
    return F.normalize(torch.erfinv(2 * z - 1), dim=-1).float()


def _softplus_mean_inverse(mean: Tensor) -> Tensor:
    """Return the s with E softplus(z) = mean, z ~ N(s, 1/3), the distribution of Wa x + s; by bisection."""
    points, weights = np.polynomial.hermite_e.hermegauss(20)
    points, weights = torch.from_numpy(points) / math.sqrt(3), torch.from_numpy(weights) / math.sqrt(2 * math.pi)
    low, high = (torch.full_like(mean, end, dtype=torch.float64) for end in (-60.0, 1e6))
    for _ in range(100):
        middle = (low + high) / 2
        less = (F.softplus(middle[:, None] + points) * weights).sum(1) < mean
        low, high = torch.where(less, middle, low), torch.where(less, high, middle)
    return low.to(mean)


def weight_sensitivity(curvature: float, m: int, head_dim: int) -> float:
    """Return the largest change of a bias -curvature |dr|^2 of m parabolas with one entry w of Wp, over |dr|^2.

    It is the derivative of MEAN_SOFTPLUS w^2 / sqrt(h) at the end of the interval from which w is drawn.
    """
    return math.sqrt(12 * MEAN_SOFTPLUS * curvature / (m * math.sqrt(head_dim)))


def isotropic_init(wp: Tensor, radius: Tensor, head_dim: int) -> Tensor:
    """Return Wp (H, m, P) with orthogonal columns of equal length, for the same initial radius in all directions."""
    m, P = wp.shape[-2:]
    diagonal = gram_diagonal(radius, head_dim)[:, None, None]
    if m < P:  # too few parabolas for all directions: the right size on average
        return wp * (diagonal * P / m).sqrt() / wp.norm(dim=-1, keepdim=True)
    return torch.linalg.qr(wp).Q * diagonal.sqrt()


def uniform(*shape: int, bound: float) -> Tensor:
    return torch.empty(*shape).uniform_(-bound, bound)
