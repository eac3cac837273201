"""PaPE-RI: one parabola of the distance per token and head, the rotation invariant form of PaPE (Ohrstrom 2026)."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.centered_positions import CenteredPositions, centered_positions
from ndformer.encodings.initial_radius import (
    MEAN_SOFTPLUS,
    InitialRadiusEncoding,
    Radius,
    gram_diagonal,
    head_radii,
    uniform,
    weight_sensitivity,
)
from ndformer.encodings.projection import linear
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import IsotropicBias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.base import Preset
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class PaPERI(InitialRadiusEncoding):
    """PaPE-RI: a bias alpha_i scale_h^2 |dr|^2 / sqrt(h), alpha_i = -softplus(Wa x_i), dr = r_j - r_i (Ohrstrom 2026).

    Each head has one parabola, the same in all directions. The paper learns the scale; `preset='pape_repo'` leaves it
    at its random start. `init_radius`, as in PaPE, is the attention radius of a head before training.

    Weights of a layer: `scale` (H,), `wa` (H, dim).

    Paper: arXiv:2602.01418.
    """

    content_dependent = True
    scaled_positions = "centered"
    circular_axes = True

    def __init__(
        self, *args: Any, init_radius: Radius | None = None, preset: Preset = "original", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.radii = () if init_radius is None else head_radii(init_radius, self.heads, "PaPERI")
        self.trainable_scale = preset == "original"

    @property
    def initial_curvature(self) -> float:
        if self.radii:
            return self.radius_curvature
        return MEAN_SOFTPLUS / (3 * self.position_dims) * self.head_dim**-0.5

    def tables(self, positions: Tensor, where: Where) -> CenteredPositions:
        curvature = self.initial_curvature
        return centered_positions(
            positions, where, self.factors, curvature, weight_sensitivity(curvature, 1, self.head_dim)
        )

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes(PaPERILayer(self))


class PaPERILayer(LayerEncoding):
    """The scale and the weights Wa of one layer of PaPE-RI."""

    def __init__(self, config: PaPERI) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        scale = uniform(config.heads, bound=config.position_dims**-0.5)
        if config.radii:
            scale = gram_diagonal(torch.tensor(config.radii), self.head_dim).sqrt()
        if config.trainable_scale:
            self.scale = nn.Parameter(scale)
        else:
            self.register_buffer("scale", scale)
        self.wa = nn.Parameter(uniform(config.heads, config.dim, bound=config.dim**-0.5))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: CenteredPositions) -> Bias:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        a = linear(x, self.wa, q).transpose(1, 2).contiguous()  # (B, H, N)
        alpha = -F.softplus(a) * (self.scale.to(x.dtype) ** 2 * self.head_dim**-0.5)[:, None]
        return IsotropicBias(alpha, state.positions, state.local)
