"""PaPE and PaPE-RI: parabolas of relative position whose shape the query decides (Ohrstrom 2026).

The paper adds <a_i, (Wp dr)^2> + <b_i, Wp dr> to q_i k_j, with dr = r_j - r_i, a = -softplus(Wa x), b = Wb x. Summed
over the m parabolas it is one quadratic form in dr,

    dr' M_i dr + c_i' dr      M_i = Wp' diag(a_i) Wp      c_i = Wp' b_i,

so P(P+1)/2 + P numbers per token and head say it all, whatever m: 5 for images, 9 for points.
"""

from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.initial_radius import (
    MEAN_SOFTPLUS,
    WITHIN,
    Radius,
    WithRadius,
    curvature,
    directed,
    isotropic,
    radii,
    steepest,
)
from ndformer.encodings.projection import linear, project
from ndformer.encodings.weight_cache import Folded
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.channels import LocalPositions, block_splits, local_positions
from ndformer.framework.bias.parabolas import IsotropicBias, QuadraticBias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.base import Preset, centered, from_repo
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.system.jit import in_memory
from ndformer.framework.tokens import Where


class Centred(NamedTuple):
    positions: Tensor  # (B or 1, N, P), in their own precision
    near: LocalPositions | None  # for features of q and k; None: too far apart for them


_made: WeakKeyDictionary[Where, tuple[tuple[Any, ...], Tensor, Centred]] = WeakKeyDictionary()


def centre(positions: Tensor, where: Where, factors: tuple[float, ...], curvature: float, slope: float) -> Centred:
    """Positions near 0, where the bias will ride on q and k: differences need no such place. On a CPU they are found
    once for a layout that comes again."""
    asked, at_once = (factors, curvature, slope), torch.compiler.is_compiling() or torch.is_inference_mode_enabled()
    kept = positions.device.type == "cpu" and not (at_once or positions.requires_grad) and in_memory(positions)
    if kept and where in _made:
        before, same, made = _made[where]
        if before == asked and torch.equal(same, positions):
            return made
    made = _centre(positions, where, *asked)
    if kept:
        _made[where] = asked, positions.clone(), made
    return made


def _centre(positions: Tensor, where: Where, factors: tuple[float, ...], curvature: float, slope: float) -> Centred:
    times = block_splits(where, factors, curvature, slope)
    if times is None:
        return Centred(positions, None)
    positions = centered(positions, where)
    return Centred(positions, local_positions(positions, where, times))


@ENCODINGS.register_module()
class PaPE(WithRadius):
    """m parabolas per head along learned directions, steered by the query's content.

    The switches are the paper's ablation (Table 2): without `distance` or `direction` that term is gone; without
    `context` a and b are learned per layer and head instead of computed from the token; without `activation` a is not
    forced to be negative; without `project` there is one parabola per axis.

    `init_radius=None` starts as the paper does, with an attention radius that depends on m and on the unit of the
    positions (0.8 patches for m=50). A number starts every head with that radius: the standard deviation, in scaled
    position units, of the attention that the distance term alone would give. Two numbers are the first head's and the
    last one's, and those between grow by a constant factor; or there is one for each head. With 'spread' training
    measures the two: from a token to its nearest neighbours, and half of what the tokens of a sample span.

    `offsets` is a variant that is not the paper's: constants a0 and b0, learned per layer, head and parabola, are added
    to a and b. They set the radius at the start, while Wp keeps its size, and let each head look one radius away, to
    another side than other heads and layers: the bias starts near -|dr - mu|^2 / (2 radius^2).
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "centered"
    class_at = "centre"

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
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        if not distance and not direction:
            raise ValueError("PaPE without distance and direction has no position left: take NoPE")
        if init_radius is not None and not (project and activation and distance):
            raise ValueError(
                "init_radius shapes the distance term through Wp: it needs distance, activation and project"
            )
        if offsets and not (init_radius and distance and direction and context and activation and project):
            raise ValueError("offsets go with init_radius, and with all of PaPE's terms: switch none off")
        if offsets and m < self.position_dims:
            raise ValueError(f"offsets take a parabola for each of {self.position_dims} dimensions or more, got m={m}")
        if m < 1:
            raise ValueError(f"m is at least 1, got {m}")
        if impl not in ("quadratic", "paper_concat"):
            raise ValueError(f"impl is 'quadratic' or 'paper_concat', got {impl!r}")
        self.m = m if project else self.position_dims
        self.distance, self.direction, self.context = distance, direction, context
        self.activation, self.project = activation, project
        self.offsets = offsets
        self.radii, self.impl = () if init_radius is None else radii(init_radius, self.heads, "PaPE"), impl

    @property
    def falls(self) -> float:
        """How sharply the distance term falls at the start, in the narrowest head: Wp is uniform within 1/sqrt(P)."""
        if self.radii:
            return super().falls
        falls = self.m * MEAN_SOFTPLUS / (3 * self.position_dims) if self.project else MEAN_SOFTPLUS
        return falls * self.head_dim**-0.5

    @property
    def initial_radius(self) -> float | None:
        if not (self.distance and self.activation):
            return None
        return WITHIN * (max(self.radii) if self.radii else (2 * self.falls) ** -0.5)

    def tables(self, positions: Tensor, where: Where) -> Centred | tuple[Tensor, Tensor | None]:
        if self.impl == "paper_concat":
            return centered(positions, where), where.real
        return centre(positions, where, self.factors, self.falls, steepest(self.falls, self.m, self.head_dim))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return (PaPELayer if self.impl == "quadratic" else _PaperConcat)(self, index)


class _Parabolas(LayerEncoding):
    """The weights of one layer, and a and b of its tokens."""

    wp: Tensor  # (H, m, P)
    wa: Tensor  # (H, m, dim), as wb
    wb: Tensor
    a: Tensor  # (H, m), as b: instead of wa and wb, without context
    b: Tensor
    a0: nn.Parameter  # (H, m), as b0: with offsets
    b0: nn.Parameter
    no_weight_decay = ("a0", "b0")

    def __init__(self, config: PaPE, index: int) -> None:
        super().__init__()
        heads, m, dim, P = config.heads, config.m, config.dim, config.position_dims
        self.head_dim, self.activation = config.head_dim, config.activation
        self.distance, self.direction = config.distance, config.direction
        if config.project:
            self.wp = nn.Parameter(_uniform(heads, m, P, bound=P**-0.5))
            if config.offsets:
                wp, a0, b0 = directed(self.wp.detach(), torch.tensor(config.radii), self.head_dim, index)
                self.wp, self.a0, self.b0 = nn.Parameter(wp), nn.Parameter(a0), nn.Parameter(b0)
            elif config.radii:
                with torch.no_grad():
                    self.wp.copy_(isotropic(self.wp, torch.tensor(config.radii), self.head_dim))
        else:
            self.register_buffer("wp", torch.eye(P).expand(heads, P, P).clone(), persistent=False)
        # per token (H, m, dim), or the same for all tokens: then as spread as Wa x would be
        shape, bound = ((heads, m, dim), dim**-0.5) if config.context else ((heads, m), 1.0)
        a, b = ("wa", "wb") if config.context else ("a", "b")
        if config.distance:
            self.register_parameter(a, nn.Parameter(_uniform(*shape, bound=bound)))
        if config.direction:
            self.register_parameter(b, nn.Parameter(_uniform(*shape, bound=bound)))
        self.context, self.offsets = config.context, config.offsets

    def _falls(self, x: Tensor, like: Tensor) -> Tensor:
        """-a: (B, N, D) -> (H, m, B, N), positive."""
        a = self._of_tokens(x, "a", like)
        return F.softplus(a) if self.activation else a

    def _of_tokens(self, x: Tensor, name: Literal["a", "b"], like: Tensor) -> Tensor:
        if self.context:
            values = project(x, getattr(self, f"w{name}"), like)
            return values + getattr(self, f"{name}0").to(x.dtype)[..., None, None] if self.offsets else values
        return getattr(self, name).to(x.dtype)[..., None, None].expand(-1, -1, *x.shape[:2])


class PaPELayer(_Parabolas):
    def __init__(self, config: PaPE, index: int) -> None:
        super().__init__(config, index)
        self.rows, self.products = Folded(), Folded()

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Centred) -> Bias:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        falls, c = self._of_content(x, q) if self.context else self._constant(x, q)
        M = None if falls is None else _summed(self.products(self._falling, self.wp).to(x.dtype), falls)
        return QuadraticBias(
            None if M is None else M.unbind(0), None if c is None else c.unbind(0), state.positions, state.near
        )

    def _of_content(self, x: Tensor, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """-a (H, m, B, N) and c (P, B, H, N), by one product with the tokens."""
        weights = [*([self.wa] if self.distance else []), *([self.wb] if self.direction else [])]
        values = project(x, self.rows(self._rows, self.wp, *weights).to(x.dtype), like)  # (H, m + P, B, N)
        if self.offsets:
            c0 = (self.wp * self.b0[..., None]).sum(1) * self.head_dim**-0.5  # (H, P)
            values = values + torch.cat([self.a0, c0], 1).to(x.dtype)[..., None, None]
        falls = F.softplus(values) if self.activation and self.distance else values  # all: parts of rows take longer
        m, P = self.wp.shape[1:]
        c = values[:, -P:].permute(1, 2, 0, 3).contiguous() if self.direction else None
        return falls[:, :m] if self.distance else None, c

    def _constant(self, x: Tensor, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        falls = self._falls(x, like) if self.distance else None
        c = slope(self._of_tokens(x, "b", like), self.wp.to(x.dtype), self.head_dim) if self.direction else None
        return falls, c

    def _rows(self, wp: Tensor, *weights: Tensor) -> Tensor:
        """Wa, and Wp' Wb / sqrt(h), in which m is gone (H, m + P, dim)."""
        rows = [w.to(torch.promote_types(w.dtype, torch.float32)) for w in (wp, *weights)]
        wp = rows.pop(0)
        if self.direction:
            rows[-1] = (wp * self.head_dim**-0.5).transpose(1, 2).contiguous() @ rows[-1]
        return torch.cat(rows, 1) if len(rows) > 1 else rows[0]

    def _falling(self, wp: Tensor) -> Tensor:
        return -products(wp.to(torch.promote_types(wp.dtype, torch.float32)), self.head_dim)


class _PaperConcat(_Parabolas):
    """The paper's own form (eq. 13, 14), to compare with: 3 m + 2 more channels on q and k."""

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor]:
        positions, real = state
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        a = -self._falls(x, q) if self.distance else x.new_zeros(*self.wp.shape[:2], *x.shape[:2])
        b = self._of_tokens(x, "b", q) if self.direction else torch.zeros_like(a)
        fq, fk = concat_features(a, b, self.wp.to(x.dtype), positions.to(x.dtype))
        if real is not None:
            fq, fk = (torch.where(real[:, None, :, None], f, 0.0) for f in (fq, fk))
        fk = fk.expand(k.shape[0], -1, -1, -1)
        return torch.cat([q, fq.to(q.dtype)], dim=-1), torch.cat([k, fk.to(k.dtype)], dim=-1)


@ENCODINGS.register_module()
class PaPERI(WithRadius):
    """PaPE-RI: alpha_i scale_h^2 |dr|^2, alpha = -softplus(Wa x): one parabola, the same in all directions.

    The paper learns the scale; `preset='pape_repo'` keeps it as drawn. `init_radius` as in PaPE.
    """

    content_dependent = True
    scaled_positions = "centered"

    def __init__(self, *args: Any, init_radius: Radius | None = None, preset: Preset = "original", **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.radii = () if init_radius is None else radii(init_radius, self.heads, "PaPERI")
        self.trainable_scale = not from_repo(preset)

    @property
    def falls(self) -> float:
        return super().falls if self.radii else MEAN_SOFTPLUS / (3 * self.position_dims) * self.head_dim**-0.5

    def tables(self, positions: Tensor, where: Where) -> Centred:
        return centre(positions, where, self.factors, self.falls, steepest(self.falls, 1, self.head_dim))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return PaPERILayer(self)


class PaPERILayer(LayerEncoding):
    def __init__(self, config: PaPERI) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        scale = _uniform(config.heads, bound=config.position_dims**-0.5)
        if config.radii:
            scale = curvature(torch.tensor(config.radii), self.head_dim).sqrt()
        if config.trainable_scale:
            self.scale = nn.Parameter(scale)
        else:
            self.register_buffer("scale", scale)
        self.wa = nn.Parameter(_uniform(config.heads, config.dim, bound=config.dim**-0.5))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Centred) -> Bias:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        a = linear(x, self.wa, q).transpose(1, 2).contiguous()  # (B, H, N)
        alpha = -F.softplus(a) * (self.scale.to(x.dtype) ** 2 * self.head_dim**-0.5)[:, None]
        return IsotropicBias(alpha, state.positions, state.near)


def form(a: Tensor, wp: Tensor, head_dim: int) -> Tensor:
    """M: a (H, m, B, N) and Wp (H, m, P) -> the P(P+1)/2 upper entries (T, B, H, N) of Wp' diag(a) Wp / sqrt(h)."""
    return _summed(products(wp, head_dim), a)


def products(wp: Tensor, head_dim: int) -> Tensor:
    """(H, m, P) -> (H, m, T), what each parabola adds to the entries of M."""
    axes = wp.unbind(-1)  # one by one: a tensor of indices would have to be sent to a GPU
    upper = [axes[p] * axes[q] for p in range(len(axes)) for q in range(p, len(axes))]
    return torch.stack(upper, -1) * head_dim**-0.5


def slope(b: Tensor, wp: Tensor, head_dim: int) -> Tensor:
    """c: b (H, m, B, N) and Wp (H, m, P) -> (P, B, H, N), Wp' b / sqrt(h)."""
    return _summed(wp * head_dim**-0.5, b)


def _summed(weights: Tensor, values: Tensor) -> Tensor:
    """Over m: (H, m, T) and (H, m, B, N) -> (T, B, H, N)."""
    sums = weights.transpose(1, 2) @ values.flatten(2)  # (H, T, B N)
    return sums.unflatten(-1, values.shape[2:]).permute(1, 2, 0, 3).contiguous()  # as compiled FlexAttention wants it


def concat_features(a: Tensor, b: Tensor, wp: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's features (B, H, N, 3 m + 2) of queries and (B or 1, H, N, 3 m + 2) of keys."""
    a, b = a.permute(2, 0, 3, 1), b.permute(2, 0, 3, 1)  # (B, H, N, m)
    s = torch.einsum("bnp,hmp->bhnm", positions, wp)
    one = torch.ones_like(s[..., :1])
    fq = torch.cat([(a * s**2).sum(-1, keepdim=True), a, -2 * a * s, -(b * s).sum(-1, keepdim=True), b], dim=-1)
    return fq, torch.cat([one, s**2, s, one, s], dim=-1)


def _uniform(*shape: int, bound: float) -> Tensor:
    return torch.empty(*shape).uniform_(-bound, bound)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(PaPE, PaPERI)
