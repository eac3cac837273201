"""How far the heads of a parabolic encoding look before they have learnt anything: `init_radius`."""

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

MEAN_SOFTPLUS = 0.7344  # of N(0, 1/3), which Wa x follows at the start
WITHIN = 3.0  # standard deviations: beyond them a token weighs a hundredth, and has no gradient to weigh more
Radius = Positive | Sequence[Positive] | Literal["spread"]


def radii(given: Radius, heads: int, name: str) -> tuple[float, ...]:
    """One for each head."""
    if isinstance(given, str):
        raise ValueError(not_measured(name, "init_radius", given))
    several = [float(given)] * heads if isinstance(given, (int, float)) else [float(r) for r in given]
    if min(several) <= 0:
        raise ValueError(f"init_radius is above 0, got {given}")
    if len(several) == 2:
        first, last = several
        return tuple(first * (last / first) ** (h / max(1, heads - 1)) for h in range(heads))
    if len(several) != heads:
        raise ValueError(
            f"init_radius of {name} is one number, two (of the first head and the last) or one for each of the {heads} "
            f"heads, got {len(several)}"
        )
    return tuple(several)


class WithRadius(PositionEncoding):
    """An encoding whose heads begin with a radius each: with one that is given, or measured for 'spread'."""

    radii: tuple[float, ...]  # one for each head; none where a start has others

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
    def falls(self) -> float:
        """How sharply attention falls at the start in the narrowest head: exp(-falls |dr|^2)."""
        return 0.5 / min(self.radii) ** 2

    @property
    def initial_radius(self) -> float | None:
        return WITHIN * max(self.radii) if self.radii else None

    def covers(self, span: Span) -> list[Coverage]:
        if self.initial_radius is None:
            return []
        first, last = short(span.nearest), short(max(span.nearest, max(span.extent) / 2))
        lengths = self.radii or [self.initial_radius / WITHIN] * self.heads
        return [gaussians(lengths, span, f"init_radius=[{first:g}, {last:g}], which is 'spread'")]


def curvature(radius: Tensor, head_dim: int) -> Tensor:
    """What Wp' Wp must be on its diagonal for exp(-dr^2 / (2 radius^2)) at the start."""
    return math.sqrt(head_dim) / (2 * radius**2 * MEAN_SOFTPLUS)


def directed(wp: Tensor, radius: Tensor, head_dim: int, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Wp (H, m, P) of the paper's size with orthogonal columns, and the offsets a0 and b0 (H, m) with which the bias
    starts as -|dr - mu|^2 / (2 radius^2), but for a constant: mu is one radius long."""
    heads, m, P = wp.shape
    wp = torch.linalg.qr(wp).Q * math.sqrt(m / (3 * P))
    share = 3 * P / m * math.sqrt(head_dim)
    a0 = _softplus_mean_inverse(share / (2 * radius**2))[:, None].expand(heads, m).clone()
    mu = radius[:, None] * sides(layer * heads, heads, P)
    return wp, a0, share * torch.einsum("hmp,hp->hm", wp, mu / radius[:, None] ** 2)


def sides(first: int, count: int, dims: int) -> Tensor:
    """(count, dims) unit vectors, members first, first + 1 ... of a sequence that fills the sphere evenly: Gaussian
    quantiles of multiples of powers of the generalised golden ratio, normalised."""
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (dims + 1))
    powers = golden ** -torch.arange(1.0, dims + 1, dtype=torch.float64)
    z = torch.arange(first + 1, first + count + 1, dtype=torch.float64)[:, None] * powers % 1
    return F.normalize(torch.erfinv(2 * z - 1), dim=-1).float()


def _softplus_mean_inverse(wanted: Tensor) -> Tensor:
    """The s with E softplus(N(s, 1/3)) = wanted, as a = softplus(Wa x + s) has it at the start; by bisection."""
    points, weights = np.polynomial.hermite_e.hermegauss(20)
    points, weights = torch.from_numpy(points) / math.sqrt(3), torch.from_numpy(weights) / math.sqrt(2 * math.pi)
    low, high = (torch.full_like(wanted, end, dtype=torch.float64) for end in (-60.0, 1e6))
    for _ in range(100):
        middle = (low + high) / 2
        less = (F.softplus(middle[:, None] + points) * weights).sum(1) < wanted
        low, high = torch.where(less, middle, low), torch.where(less, high, middle)
    return low.to(wanted)


def steepest(falls: float, m: int, head_dim: int) -> float:
    """The largest change of the bias, over |dr|^2, with one weight of m parabolas that together fall with -falls
    |dr|^2: the derivative of MEAN_SOFTPLUS w^2 / sqrt(h), at the end of the range that w is drawn from."""
    return math.sqrt(12 * MEAN_SOFTPLUS * falls / (m * math.sqrt(head_dim)))


def isotropic(wp: Tensor, radius: Tensor, head_dim: int) -> Tensor:
    """Wp (H, m, P) with orthogonal columns of one length, so that a head starts with one radius in all directions."""
    m, P = wp.shape[-2:]
    sharp = curvature(radius, head_dim)[:, None, None]
    if m < P:  # too few parabolas for all directions: the right size on average
        return wp * (sharp * P / m).sqrt() / wp.norm(dim=-1, keepdim=True)
    return torch.linalg.qr(wp).Q * sharp.sqrt()
