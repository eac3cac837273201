"""PaPECompact: PaPE's quadratic form computed from the token by its Cholesky factor, without Wp.

The sum of PaPE's parabolas (pape.py) is a negative semidefinite quadratic form and a linear term, whatever m is. Here
the token gives their P(P+1)/2 + P coefficients per head directly:

    -|L_i' s|^2 / 2 + c_i' s      s = dr / R      L_i = L + Wl x_i, lower triangular      c_i = Wc x_i

R is the initial radius of a head, its unit of length. M_i = -L_i L_i' / (2 R^2) can be any negative semidefinite
matrix, singular ones included, and c_i any vector: the same functions as PaPE's.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.centered_positions import CenteredPositions, centered_positions
from ndformer.encodings.initial_radius import InitialRadiusEncoding, Radius, head_radii
from ndformer.encodings.projection import project
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

INITIAL_STD = 1 / 6  # of an entry of L over tokens, before training


@ENCODINGS.register_module()
class PaPECompact(InitialRadiusEncoding):
    """A bias -|L_i' s|^2 / 2 + c_i' s, s = dr / R, whose Cholesky factor L_i and slope c_i the query token gives.

    `init_radius` R is the attention radius of a head before training: the standard deviation, in scaled position units,
    of the attention that the quadratic form alone would give. It is one number for all heads, one for each, or two, of
    the first and the last, with geometric steps between them. The encoding is a variant of PaPE (Ohrstrom 2026).

    Weights of a layer: `factor` (H, P(P+1)/2), the constant part L; `wl` (H, P(P+1)/2, dim); `wc` (H, P, dim).

    Paper: arXiv:2602.01418 (PaPE).
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "centered"
    circular_axes = True
    class_at = "center"

    def __init__(self, *args: Any, init_radius: Radius = 2.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.radii = head_radii(init_radius, self.heads, "PaPECompact")

    def tables(self, positions: Tensor, where: Where) -> CenteredPositions:
        curvature = self.initial_curvature
        return centered_positions(positions, where, self.factors, curvature, 2 * curvature)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes(PaPECompactLayer(self))


class PaPECompactLayer(LayerEncoding):
    """The weights of one layer of PaPECompact."""

    radius: Tensor
    no_weight_decay = ("factor",)  # weight decay pulls towards 0, an infinite radius

    def __init__(self, config: PaPECompact) -> None:
        super().__init__()
        heads, dim, P = config.heads, config.dim, config.position_dims
        self.lower = [(p, q) for p in range(P) for q in range(p + 1)]  # indices of the entries of L, row by row
        self.register_buffer("radius", torch.tensor(config.radii))
        # random entries make a row longer on average; this factor undoes it, so that all axes have the same radius
        row = torch.tensor([1 / math.sqrt(1 + (p + 1) * INITIAL_STD**2) for p, _ in self.lower])
        diagonal = torch.tensor([float(p == q) for p, q in self.lower])
        self.factor = nn.Parameter((row * diagonal).expand(heads, -1).clone())  # (H, P(P+1)/2)
        bound = math.sqrt(3 / dim)  # for a variance of 1 over tokens
        self.wl = nn.Parameter(torch.empty(heads, len(row), dim).uniform_(-bound, bound) * INITIAL_STD * row[:, None])
        self.wc = nn.Parameter(torch.empty(heads, P, dim).uniform_(-bound / 2, bound / 2))  # shifts by half a radius

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: CenteredPositions) -> Bias:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        per_unit = 1 / self.radius.to(x.dtype)[:, None]  # (H, 1)
        L = (project(x, self.wl, q) + self.factor.to(x.dtype)[:, :, None, None]).permute(1, 2, 0, 3)  # (T, B, H, N)
        L = dict(zip(self.lower, (L * (per_unit * math.sqrt(0.5))).contiguous().unbind(0)))
        c = (project(x, self.wc, q).permute(1, 2, 0, 3) * per_unit).contiguous()
        pairs = [(a, b) for a in range(len(c)) for b in range(a, len(c))]
        M = [-sum((L[a, k] * L[b, k] for k in range(1, a + 1)), L[a, 0] * L[b, 0]) for a, b in pairs]
        return QuadraticBias(M, c.unbind(0), state.positions, state.local)
