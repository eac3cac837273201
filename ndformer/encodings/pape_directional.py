"""PaPEDirectional: a parabola per head with a rotation equivariant direction (rotation invariant and directional).

A rotation invariant function of two positions depends on their distance alone. A direction that rotates with the sample
has to be computed from positions: here from landmarks, weighted means of the positions of all tokens of the sample,
with weights computed from the content of these tokens.

    u_k = sum_j softmax_j(Wu_k x_j) r_j      e_ik = t / sqrt(1 + |t|^2), t = w (u_k - r_i)      s = w dr
    bias = -softplus(Wa x_i) |s|^2 + sum_k (Wb_k x_i) <e_ik, s>

u_k is a landmark, e_ik the direction from the query to it, shorter than 1. The query token decides how much attention
shifts towards each landmark or away from it; P landmarks span all directions in general. In a point symmetric sample,
content included, the landmarks are at its center, and attention there has no direction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.centered_positions import centered_positions
from ndformer.encodings.initial_radius import MEAN_SOFTPLUS, InitialRadiusEncoding, Radius, head_radii
from ndformer.encodings.projection import project
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.channels import LocalPositions
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.base import centered
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import Where


class SamplePositions(NamedTuple):
    positions: Tensor  # (B or 1, N, P), in their own precision
    local: LocalPositions | None  # for features of q and k
    centered: Tensor  # (B or 1, N, P), about the mean of each sample
    real: Tensor | None  # (B or 1, N) tokens that have a position
    sample: Tensor | None  # (B, N) the number of each token's sample in its row, where rows are packed


@ENCODINGS.register_module()
class PaPEDirectional(InitialRadiusEncoding):
    """A bias -softplus(Wa x_i) |s|^2 + sum_k (Wb_k x_i) <e_ik, s>, s = w dr, with directions e_ik to learned landmarks.

    The formulas of e_ik are at the top of this file. No rotation of all positions changes a logit. `landmarks` is their
    number per head, by default one for each axis. `init_radius` is the attention radius of a head before training, from
    the distance term alone: one number, one for each head, or two, of the first and the last. The encoding is a variant
    of PaPE-RI (Ohrstrom 2026).

    Weights of a layer: `scale` w (H,), `wa` (H, 1, dim), `wb` and `wu` (H, landmarks, dim).

    Paper: arXiv:2602.01418 (PaPE).
    """

    content_dependent = True
    scaled_positions = "centered"
    line_reason = "its landmarks are mean positions, which a circle does not have"

    def __init__(self, *args: Any, landmarks: Width | None = None, init_radius: Radius = 2.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.landmarks = self.position_dims if landmarks is None else landmarks
        self.radii = head_radii(init_radius, self.heads, "PaPEDirectional")

    def tables(self, positions: Tensor, where: Where) -> SamplePositions:
        curvature = self.initial_curvature
        state = centered_positions(positions, where, self.factors, curvature, 2 * curvature)
        sample = None if where.segment is None else where.runs()
        return SamplePositions(*state, centered(positions, where), where.real, sample)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return PaPEDirectionalLayer(self)


class PaPEDirectionalLayer(LayerEncoding):
    """The weights of one layer of PaPEDirectional."""

    def __init__(self, config: PaPEDirectional) -> None:
        super().__init__()
        heads, count, dim = config.heads, config.landmarks, config.dim
        self.scale = nn.Parameter((torch.tensor(config.radii) ** 2 * 2 * MEAN_SOFTPLUS).rsqrt())
        bound = dim**-0.5
        self.wa = nn.Parameter(torch.empty(heads, 1, dim).uniform_(-bound, bound))
        self.wb = nn.Parameter(torch.empty(heads, count, dim).uniform_(-bound, bound))
        self.wu = nn.Parameter(torch.empty(heads, count, dim).uniform_(-bound, bound))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: SamplePositions) -> Bias:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = self.scale.to(x.dtype)[:, None, None]  # (H, 1, 1)
        alpha = -F.softplus(project(x, self.wa, q)[:, 0]) * scale**2  # (H, B, N)
        r = state.centered.expand(x.shape[0], -1, -1)
        offsets = (landmark_positions(project(x, self.wu, q), r, state) - r).to(x.dtype) * scale[..., None, None]
        directions = offsets / (1 + offsets.square().sum(-1, keepdim=True)).sqrt()  # (H, K, B, N, P)
        c = (project(x, self.wb, q)[..., None] * directions).sum(1) * scale[..., None]  # (H, B, N, P)
        alpha, c = alpha.transpose(0, 1).contiguous(), c.permute(3, 1, 0, 2).contiguous()
        P, zero = len(c), torch.zeros_like(alpha)
        M = torch.stack([alpha if a == b else zero for a in range(P) for b in range(a, P)])
        return QuadraticBias(M.unbind(0), c.unbind(0), state.positions, state.local)


def landmark_positions(scores: Tensor, positions: Tensor, state: SamplePositions) -> Tensor:
    """Return the softmax-weighted mean position of each token's sample, per head and landmark (H, K, B, N or 1, P).

    `scores` (H, K, B, N) of the tokens at `positions` (B, N, P).
    """
    if state.real is not None:  # a finite minimum: a sample without any position has uniform weights, not NaN
        scores = scores.masked_fill(~state.real, torch.finfo(scores.dtype).min)
    if state.sample is None:
        exact = torch.promote_types(scores.dtype, positions.dtype)
        return scores.to(exact).softmax(-1)[..., None, :] @ positions.to(exact)
    # packed rows: a softmax over the tokens of each sample; a row has no more samples than tokens
    sample = state.sample.expand_as(scores)
    zeros = scores.new_zeros(scores.shape)
    largest = torch.full_like(zeros, -torch.inf).scatter_reduce(-1, sample, scores.detach(), "amax")
    weights = (scores - largest.gather(-1, sample)).exp()
    weights = weights / zeros.scatter_add(-1, sample, weights).gather(-1, sample)
    weighted = weights[..., None] * positions  # (H, K, B, N, P)
    sample = sample[..., None].expand_as(weighted)
    return torch.zeros_like(weighted).scatter_add(-2, sample, weighted).gather(-2, sample)
