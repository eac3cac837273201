"""PaPECompact: PaPE's parabolas from P(P+1)/2 + P numbers a head, without Wp (M by its Cholesky factor).

Whatever m is, all that PaPE's parabolas come to is a quadratic form that falls everywhere and a slope. So these are
what the token gives, directly:

    -|L_i' s|^2 / 2 + c_i' s      s = dr / R      L_i = L + Wl x_i, lower triangular      c_i = Wc x_i

R is the radius that a head starts with, its unit of length. M_i = -L_i L_i' / (2 R^2) is any negative semidefinite
matrix, those included in which attention falls along some directions only, and c_i any vector: what PaPE's can be, and
no more.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.initial_radius import Radius, WithRadius, radii
from ndformer.encodings.pape import Centred, centre
from ndformer.encodings.projection import project
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

SPREAD = 1 / 6  # of an entry of L over tokens, at the start


@ENCODINGS.register_module()
class PaPECompact(WithRadius):
    """A falling quadratic form and a slope per token and head, the form by its Cholesky factor.

    A head starts with a radius of `init_radius`: the standard deviation, in scaled position units, of the attention
    that the form alone would give. One for all heads, one for each, or two, of the first and the last.
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "centered"
    class_at = "centre"

    def __init__(self, *args: Any, init_radius: Radius = 2.0, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.radii = radii(init_radius, self.heads, "PaPECompact")

    def tables(self, positions: Tensor, where: Where) -> Centred:
        return centre(positions, where, self.factors, self.falls, 2 * self.falls)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return PaPECompactLayer(self)


class PaPECompactLayer(LayerEncoding):
    radius: Tensor
    no_weight_decay = ("factor",)  # it starts at what should be kept, not at 0

    def __init__(self, config: PaPECompact) -> None:
        super().__init__()
        heads, dim, P = config.heads, config.dim, config.position_dims
        self.lower = [(p, q) for p in range(P) for q in range(p + 1)]  # the entries of L, row by row
        self.register_buffer("radius", torch.tensor(config.radii))
        # what varies in a row makes it longer: shortened, all axes have the radius on average
        row = torch.tensor([1 / math.sqrt(1 + (p + 1) * SPREAD**2) for p, _ in self.lower])
        diagonal = torch.tensor([float(p == q) for p, q in self.lower])
        self.factor = nn.Parameter((row * diagonal).expand(heads, -1).clone())  # (H, P(P+1)/2)
        bound = math.sqrt(3 / dim)  # for a variance of 1 over tokens
        self.wl = nn.Parameter(torch.empty(heads, len(row), dim).uniform_(-bound, bound) * SPREAD * row[:, None])
        self.wc = nn.Parameter(torch.empty(heads, P, dim).uniform_(-bound / 2, bound / 2))  # leans by half a radius

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Centred) -> Bias:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        per_unit = 1 / self.radius.to(x.dtype)[:, None]  # (H, 1)
        L = (project(x, self.wl, q) + self.factor.to(x.dtype)[:, :, None, None]).permute(1, 2, 0, 3)  # (T, B, H, N)
        L = dict(zip(self.lower, (L * (per_unit * math.sqrt(0.5))).contiguous().unbind(0)))
        c = (project(x, self.wc, q).permute(1, 2, 0, 3) * per_unit).contiguous()
        pairs = [(a, b) for a in range(len(c)) for b in range(a, len(c))]
        M = [-sum((L[a, k] * L[b, k] for k in range(1, a + 1)), L[a, 0] * L[b, 0]) for a, b in pairs]
        return QuadraticBias(M, c.unbind(0), state.positions, state.near)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(PaPECompact)
