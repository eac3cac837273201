"""PaPEDirectional: parabolas that turn with the scene, and lean (rotation invariant and directional at once).

A function of two places that no turn changes knows their distance alone. What a query leans to must turn too, so it is
made of places: of the landmarks of its sample, weighted means of the places of all tokens, with weights that their
content decides.

    u_k = sum_j softmax_j(Wu_k x_j) r_j      e_ik = t / sqrt(1 + |t|^2), t = w (u_k - r_i)      s = w dr
    bias = -softplus(Wa x_i) |s|^2 + sum_k (Wb_k x_i) <e_ik, s>

The query says how much it leans to each landmark or away from it; P of them, in general, span all directions. Where
the sample looks the same from the opposite side, content included, nothing can lean, and nothing does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.initial_radius import MEAN_SOFTPLUS, Radius, WithRadius, radii
from ndformer.encodings.pape import centre
from ndformer.encodings.projection import project
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.channels import LocalPositions
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.base import centered
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import Where


class Scene(NamedTuple):
    positions: Tensor  # (B or 1, N, P), in their own precision
    near: LocalPositions | None
    places: Tensor  # (B or 1, N, P) near 0
    real: Tensor | None  # (B or 1, N) tokens that have a place
    sample: Tensor | None  # (B, N) the number of each token's sample in its row, where rows are packed


@ENCODINGS.register_module()
class PaPEDirectional(WithRadius):
    """A parabola of the distance that leans to landmarks of the sample: no turn of all positions changes a logit.

    `landmarks` per head, by default as many as there are axes. `init_radius` as in PaPECompact, of the distance term.
    """

    content_dependent = True
    scaled_positions = "centered"

    def __init__(self, *args: Any, landmarks: Width | None = None, init_radius: Radius = 2.0, **rest: Any) -> None:
        super().__init__(*args, **rest)
        if landmarks is not None and landmarks < 1:
            raise ValueError(f"landmarks is at least 1, got {landmarks}")
        self.landmarks = self.position_dims if landmarks is None else landmarks
        self.radii = radii(init_radius, self.heads, "PaPEDirectional")

    def tables(self, positions: Tensor, where: Where) -> Scene:
        placed = centre(positions, where, self.factors, self.falls, 2 * self.falls)
        sample = None if where.segment is None else where.runs()
        return Scene(*placed, centered(positions, where), where.real, sample)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return PaPEDirectionalLayer(self)


class PaPEDirectionalLayer(LayerEncoding):
    def __init__(self, config: PaPEDirectional) -> None:
        super().__init__()
        heads, count, dim = config.heads, config.landmarks, config.dim
        self.scale = nn.Parameter((torch.tensor(config.radii) ** 2 * 2 * MEAN_SOFTPLUS).rsqrt())
        bound = dim**-0.5
        self.wa = nn.Parameter(torch.empty(heads, 1, dim).uniform_(-bound, bound))
        self.wb = nn.Parameter(torch.empty(heads, count, dim).uniform_(-bound, bound))
        self.wu = nn.Parameter(torch.empty(heads, count, dim).uniform_(-bound, bound))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Scene) -> Bias:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = self.scale.to(x.dtype)[:, None, None]  # (H, 1, 1)
        alpha = -F.softplus(project(x, self.wa, q)[:, 0]) * scale**2  # (H, B, N)
        places = state.places.expand(x.shape[0], -1, -1)
        marks = landmarks(project(x, self.wu, q), places, state)  # (H, K, B, N or 1, P)
        towards = (marks - places).to(x.dtype) * scale[..., None, None]
        towards = towards / (1 + towards.square().sum(-1, keepdim=True)).sqrt()
        c = (project(x, self.wb, q)[..., None] * towards).sum(1) * scale[..., None]  # (H, B, N, P)
        alpha, c = alpha.transpose(0, 1).contiguous(), c.permute(3, 1, 0, 2).contiguous()
        P, none = len(c), torch.zeros_like(alpha)
        M = torch.stack([alpha if a == b else none for a in range(P) for b in range(a, P)])
        return QuadraticBias(M.unbind(0), c.unbind(0), state.positions, state.near)


def landmarks(scores: Tensor, places: Tensor, scene: Scene) -> Tensor:
    """(H, K, B, N) and (B, N, P) -> (H, K, B, N or 1, P): weighted means of the places of each token's sample."""
    if scene.real is not None:
        scores = scores.masked_fill(~scene.real, torch.finfo(scores.dtype).min)  # where none has a place: of any
    if scene.sample is None:
        finer = torch.promote_types(scores.dtype, places.dtype)
        return scores.to(finer).softmax(-1)[..., None, :] @ places.to(finer)
    sample = scene.sample.expand_as(scores)
    none = scores.new_zeros(scores.shape)  # no row has more samples than tokens
    most = torch.full_like(none, -torch.inf).scatter_reduce(-1, sample, scores.detach(), "amax")
    weights = (scores - most.gather(-1, sample)).exp()
    weights = weights / none.scatter_add(-1, sample, weights).gather(-1, sample)
    held = weights[..., None] * places  # (H, K, B, N, P)
    sample = sample[..., None].expand_as(held)
    return torch.zeros_like(held).scatter_add(-2, sample, held).gather(-2, sample)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(PaPEDirectional)
