"""PaPE, parabolic position encoding: parabolas of relative position, shaped by the query's content (Ohrstrom 2026).

The paper adds <a_i, (Wp dr)^2> + <b_i, Wp dr> to q_i k_j, with dr = r_j - r_i, a = -softplus(Wa x), b = Wb x. The sum
over the m parabolas of a head is one quadratic form in dr,

    dr' M_i dr + c_i' dr      M_i = Wp' diag(a_i) Wp / sqrt(h)      c_i = Wp' b_i / sqrt(h),

so a token and head have P(P+1)/2 + P coefficients, whatever m: 5 for images, 9 for points.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.centered_positions import CenteredPositions, centered_positions
from ndformer.encodings.initial_radius import (
    CUTOFF_RADII,
    MEAN_SOFTPLUS,
    InitialRadiusEncoding,
    Radius,
    head_radii,
    isotropic_init,
    offset_init,
    uniform,
    weight_sensitivity,
)
from ndformer.encodings.pape_ri import PaPERI, PaPERILayer  # noqa: F401  # in this file for one more version
from ndformer.encodings.projection import project
from ndformer.encodings.weight_cache import WeightCache
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.base import centered
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class PaPE(InitialRadiusEncoding):
    """m parabolas per head along learned directions, with coefficients computed from the query token (Ohrstrom 2026).

    bias_ij = (<a_i, (Wp dr)^2> + <b_i, Wp dr>) / sqrt(h), dr = r_j - r_i, a_i = -softplus(Wa x_i), b_i = Wb x_i. The
    switches are the paper's ablation (Table 2): without `distance` the first term is gone, without `direction` the
    second; without `context` a and b are learned per layer and head instead of computed from the token; without
    `activation` a is not forced to be negative; without `project` there is one parabola per axis.

    `init_radius=None` starts as the paper does, with an attention radius that depends on m and on the unit of the
    positions (0.8 patches for m=50). A number is the radius of every head before training: the standard deviation, in
    scaled position units, of the attention that the distance term alone would give. Two numbers are the radii of the
    first and the last head, with geometric steps between them; otherwise give one for each head. With 'spread',
    training measures the two: the distance from a token to its nearest neighbors, and half of a sample's extent.

    `offsets` is not in the paper: constants a0 and b0, learned per layer, head and parabola, are added to a and b. They
    set the initial radius, so that Wp keeps the paper's size, and let each head attend to tokens one radius away, in
    another direction than other heads and layers: the bias starts near -|dr - mu|^2 / (2 radius^2).

    `impl='paper_concat'` computes the same bias as the paper does, by 3 m + 2 extra channels of q and k.

    Weights of a layer: `wp` (H, m, P), `wa` and `wb` (H, m, dim).

    Paper: arXiv:2602.01418.
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "centered"
    circular_axes = True
    class_at = "center"

    def __init__(
        self,
        *args: Any,
        m: Width = 50,
        distance: bool = True,
        direction: bool = True,
        context: bool = True,
        activation: bool = True,
        project: bool = True,
        init_radius: Radius | None = None,
        offsets: bool = False,
        impl: Literal["quadratic", "paper_concat"] = "quadratic",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not distance and not direction:
            raise ValueError("PaPE needs distance or direction, got neither. Take NoPE for a model without positions")
        if init_radius is not None and not (project and activation and distance):
            raise ValueError(
                "init_radius needs distance, activation and project, got one of them off. Leave init_radius at None"
            )
        if offsets and not (init_radius and distance and direction and context and activation and project):
            raise ValueError(
                "offsets need init_radius and all terms of PaPE, got one of them off. Set init_radius, and leave "
                "distance, direction, context, activation and project on"
            )
        if offsets and m < self.position_dims:
            raise ValueError(f"m must be at least {self.position_dims} with offsets, the number of dimensions, got {m}")
        if impl == "paper_concat" and any(self.periods):
            raise ValueError("periods need impl='quadratic', got 'paper_concat', which has no differences of positions")
        self.m = m if project else self.position_dims
        self.distance, self.direction, self.context = distance, direction, context
        self.activation, self.project = activation, project
        self.offsets, self.impl = offsets, impl
        self.content_dependent = context
        self.radii = () if init_radius is None else head_radii(init_radius, self.heads, "PaPE")

    @property
    def initial_curvature(self) -> float:
        """The curvature of the distance term before training, in the narrowest head: Wp is uniform within 1/sqrt(P)."""
        if self.radii:
            return self.radius_curvature
        total = self.m * MEAN_SOFTPLUS / (3 * self.position_dims) if self.project else MEAN_SOFTPLUS
        return total * self.head_dim**-0.5

    @property
    def initial_radius(self) -> float | None:
        if not (self.distance and self.activation):
            return None
        return CUTOFF_RADII * (max(self.radii) if self.radii else (2 * self.initial_curvature) ** -0.5)

    def tables(self, positions: Tensor, where: Where) -> CenteredPositions | tuple[Tensor, Tensor | None]:
        if self.impl == "paper_concat":
            return centered(positions, where), where.real
        curvature = self.initial_curvature
        return centered_positions(
            positions, where, self.factors, curvature, weight_sensitivity(curvature, self.m, self.head_dim)
        )

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes((PaPELayer if self.impl == "quadratic" else _PaperConcatLayer)(self, index))


class _PaPEWeights(LayerEncoding):
    """The weights of one layer, and the coefficients a and b that they give for tokens."""

    wp: Tensor  # (H, m, P)
    wa: Tensor  # (H, m, dim)
    wb: Tensor  # (H, m, dim)
    a: Tensor  # (H, m), in the place of wa without `context`
    b: Tensor  # (H, m), in the place of wb
    a0: nn.Parameter  # (H, m), with `offsets`
    b0: nn.Parameter  # (H, m)
    no_weight_decay = ("a0", "b0")

    def __init__(self, config: PaPE, index: int) -> None:
        super().__init__()
        heads, m, dim, P = config.heads, config.m, config.dim, config.position_dims
        self.head_dim, self.activation = config.head_dim, config.activation
        self.distance, self.direction = config.distance, config.direction
        if config.project:
            self.wp = nn.Parameter(uniform(heads, m, P, bound=P**-0.5))
            if config.offsets:
                wp, a0, b0 = offset_init(self.wp.detach(), torch.tensor(config.radii), self.head_dim, index)
                self.wp, self.a0, self.b0 = nn.Parameter(wp), nn.Parameter(a0), nn.Parameter(b0)
            elif config.radii:
                with torch.no_grad():
                    self.wp.copy_(isotropic_init(self.wp, torch.tensor(config.radii), self.head_dim))
        else:
            self.register_buffer("wp", torch.eye(P).expand(heads, P, P).clone(), persistent=False)
        # constants, the same for all tokens, start with the standard deviation that Wa x has over tokens
        shape, bound = ((heads, m, dim), dim**-0.5) if config.context else ((heads, m), 1.0)
        a, b = ("wa", "wb") if config.context else ("a", "b")
        if config.distance:
            self.register_parameter(a, nn.Parameter(uniform(*shape, bound=bound)))
        if config.direction:
            self.register_parameter(b, nn.Parameter(uniform(*shape, bound=bound)))
        self.context, self.offsets = config.context, config.offsets

    def curvatures(self, x: Tensor, like: Tensor) -> Tensor:
        """Return -a (H, m, B, N) of tokens (B, N, D): softplus(Wa x), which is positive."""
        values = self.coefficients(x, "a", like)
        return F.softplus(values) if self.activation else values

    def coefficients(self, x: Tensor, name: Literal["a", "b"], like: Tensor) -> Tensor:
        """Return Wa x or Wb x (H, m, B, N), before the activation."""
        if self.context:
            values = project(x, getattr(self, f"w{name}"), like)
            return values + getattr(self, f"{name}0").to(x.dtype)[..., None, None] if self.offsets else values
        return getattr(self, name).to(x.dtype)[..., None, None].expand(-1, -1, *x.shape[:2])


class PaPELayer(_PaPEWeights):
    """One layer of PaPE with the bias as one quadratic form per token and head."""

    def __init__(self, config: PaPE, index: int) -> None:
        super().__init__(config, index)
        self.token_weights, self.form_weights = WeightCache(), WeightCache()

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: CenteredPositions) -> Bias:
        M, c = self._forms(x, q)
        return QuadraticBias(M, c, state.positions, state.local)

    def token_numbers(self, x: Tensor, like: Tensor) -> Tensor | None:
        if self.circle_lengths is not None:
            return None
        M, c = self._forms(x, like)
        numbers = torch.stack([*(M or []), *(c or [])], -1)  # (B, H, N, F)
        return numbers.transpose(1, 2).flatten(2)

    def bias_from_numbers(self, numbers: Tensor, state: CenteredPositions) -> Bias:
        P = self.wp.shape[-1]
        forms = numbers.unflatten(-1, (len(self.wp), -1)).permute(3, 0, 2, 1).contiguous().unbind(0)  # F of (B, H, N)
        M, c = (forms[:-P], forms[-P:]) if self.distance and self.direction else (forms, forms)
        return QuadraticBias(M if self.distance else None, c if self.direction else None, state.positions, state.local)

    def _forms(self, x: Tensor, like: Tensor) -> tuple[Sequence[Tensor] | None, Sequence[Tensor] | None]:
        """Return the entries of M and of c, each (B, H, N)."""
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        curvatures, c = self._from_tokens(x, like) if self.context else self._constant(x, like)
        M = None
        if curvatures is not None:
            M = _contract(self.form_weights(self._fold_form, self.wp).to(x.dtype), curvatures).unbind(0)
        return M, None if c is None else c.unbind(0)

    def _from_tokens(self, x: Tensor, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return -a (H, m, B, N) and c (P, B, H, N), by one product with the tokens."""
        weights = [*([self.wa] if self.distance else []), *([self.wb] if self.direction else [])]
        folded = self.token_weights(self._fold_tokens, self.wp, *weights).to(x.dtype)
        values = project(x, folded, like)  # (H, m + P, B, N)
        if self.offsets:
            c0 = (self.wp * self.b0[..., None]).sum(1) * self.head_dim**-0.5  # (H, P)
            values = values + torch.cat([self.a0, c0], 1).to(x.dtype)[..., None, None]
        # of all rows at once: softplus of a part of the rows is slower
        curvatures = F.softplus(values) if self.activation and self.distance else values
        m, P = self.wp.shape[1:]
        c = values[:, -P:].permute(1, 2, 0, 3).contiguous() if self.direction else None
        return curvatures[:, :m] if self.distance else None, c

    def _constant(self, x: Tensor, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        curvatures = self.curvatures(x, like) if self.distance else None
        if not self.direction:
            return curvatures, None
        return curvatures, linear_coefficients(self.coefficients(x, "b", like), self.wp.to(x.dtype), self.head_dim)

    def _fold_tokens(self, wp: Tensor, *weights: Tensor) -> Tensor:
        """Return Wa and Wp' Wb / sqrt(h), which no longer depends on m, as one matrix (H, m + P, dim)."""
        rows = [w.to(torch.promote_types(w.dtype, torch.float32)) for w in (wp, *weights)]
        wp = rows.pop(0)
        if self.direction:
            rows[-1] = (wp * self.head_dim**-0.5).transpose(1, 2).contiguous() @ rows[-1]
        return torch.cat(rows, 1) if len(rows) > 1 else rows[0]

    def _fold_form(self, wp: Tensor) -> Tensor:
        """Return (H, m, T): the entries of M per unit of -a."""
        return -parabola_products(wp.to(torch.promote_types(wp.dtype, torch.float32)), self.head_dim)


class _PaperConcatLayer(_PaPEWeights):
    """One layer of PaPE in the paper's own form (eq. 13, 14), for comparisons: 3 m + 2 more channels of q and k."""

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor]:
        positions, real = state
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        a = -self.curvatures(x, q) if self.distance else x.new_zeros(*self.wp.shape[:2], *x.shape[:2])
        b = self.coefficients(x, "b", q) if self.direction else torch.zeros_like(a)
        fq, fk = concat_features(a, b, self.wp.to(x.dtype), positions.to(x.dtype))
        if real is not None:
            fq, fk = (torch.where(real[:, None, :, None], f, 0.0) for f in (fq, fk))
        fk = fk.expand(k.shape[0], -1, -1, -1)
        return torch.cat([q, fq.to(q.dtype)], dim=-1), torch.cat([k, fk.to(k.dtype)], dim=-1)


def quadratic_coefficients(a: Tensor, wp: Tensor, head_dim: int) -> Tensor:
    """Return the upper entries (T, B, H, N) of M = Wp' diag(a) Wp / sqrt(h), from a (H, m, B, N) and Wp (H, m, P).

    T = P(P+1)/2, row by row.
    """
    return _contract(parabola_products(wp, head_dim), a)


def parabola_products(wp: Tensor, head_dim: int) -> Tensor:
    """Return the contribution of each parabola to the upper entries of M per unit of a: (H, m, P) -> (H, m, T)."""
    axes = wp.unbind(-1)  # pair by pair: a tensor of indices would have to be copied to the GPU
    upper = [axes[p] * axes[q] for p in range(len(axes)) for q in range(p, len(axes))]
    return torch.stack(upper, -1) * head_dim**-0.5


def linear_coefficients(b: Tensor, wp: Tensor, head_dim: int) -> Tensor:
    """Return c = Wp' b / sqrt(h) as (P, B, H, N), from b (H, m, B, N) and Wp (H, m, P)."""
    return _contract(wp * head_dim**-0.5, b)


def _contract(weights: Tensor, values: Tensor) -> Tensor:
    """Sum over m: (H, m, T) and (H, m, B, N) -> (T, B, H, N)."""
    sums = weights.transpose(1, 2) @ values.flatten(2)  # (H, T, B N)
    return sums.unflatten(-1, values.shape[2:]).permute(1, 2, 0, 3).contiguous()  # compiled FlexAttention needs this


def concat_features(a: Tensor, b: Tensor, wp: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the paper's features of queries (B, H, N, 3 m + 2) and of keys (B or 1, H, N, 3 m + 2)."""
    a, b = a.permute(2, 0, 3, 1), b.permute(2, 0, 3, 1)  # (B, H, N, m)
    s = torch.einsum("bnp,hmp->bhnm", positions, wp)
    ones = torch.ones_like(s[..., :1])
    fq = torch.cat([(a * s**2).sum(-1, keepdim=True), a, -2 * a * s, -(b * s).sum(-1, keepdim=True), b], dim=-1)
    return fq, torch.cat([ones, s**2, s, ones, s], dim=-1)
