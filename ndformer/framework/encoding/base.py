"""The base class of position encodings. Its layers are in layer.py.

encoding = build_encoding(dict(type='PaPE', m=50), dim=384, heads=6, position_dims=2, depth=12)     # composed.py
layers = [encoding.layer(i, 12) for i in range(12)]     # one per attention layer, which owns it
state = encoding.prepare(where)                         # once per set of positions
x = encoding.embed(x, state)                            # once per model
x = encoding.block_update(x, state, i)                # before block i, and after the last
q, k, bias = layers[i](q, k, x, state)                  # in each attention layer
v = layers[i].values(v, x, state)                       # before attention, if layers[i].transforms_values
y = layers[i].output(y, x, state)                       # after it, before the heads are joined
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast, get_args

import torch
from torch import Tensor, nn

from ndformer.framework.encoding.circles import Periods, check_periods, wrap
from ndformer.framework.encoding.coverage import Coverage, Span, initial_radius_coverage
from ndformer.framework.encoding.layer import LayerEncoding
from ndformer.framework.encoding.scaling import Scaling
from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.errors import alternatives
from ndformer.framework.registry.ranges import Dims, Factor, Few, NonNegative, Positive, Width
from ndformer.framework.registry.renamed import Renamed, current_value
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Where

PerAxis = Positive | Sequence[Positive]
# of a class token; center: the mean position of a sample's tokens; auto: chosen by the encoding
ClassPosition = Literal["nowhere", "origin", "center", "auto"]
CLASS_POSITIONS = Renamed("class_at", dict(centre="center"))
FROM_DATA = "auto", "spread"  # option values that training replaces by measured numbers
Preset = Literal[
    "original", "pape_repo"
]  # as defined by the authors of an encoding, or as implemented in the PaPE repository


class PositionEncoding(nn.Module):
    """A position encoding for all blocks of one stage. The base class changes nothing (NoPE)."""

    needs_grid: bool = False  # requires tokens on a full grid (`where.grid`)
    instead: str = "PaPE, ALiBi or a rotary one"  # encodings to suggest for free positions
    float_positions: bool = True  # False: rounds positions to integers
    content_dependent: bool = False  # the effect of positions depends on token features
    translation_invariant: bool = True  # shifting all positions changes no logit between placed tokens
    rotation_invariant: bool = True  # rotating all positions about the origin changes no logit either
    embeds_unplaced: bool = False  # adds an embedding also to tokens without a position
    changes_unplaced: bool = False  # changes q and k also of tokens without a position, by their features
    normalizes: bool = False  # q and k, so it comes first of several encodings
    planes: Any = None  # which channel pairs of q and k it rotates; rotations of others may not commute with them
    widens: bool = False  # q and k, so it comes last of several encodings
    bounded: bool = False  # positions beyond a fixed extent are clamped to its border
    scales_waves: bool = False  # has frequencies that `scaling` can change
    has_temperature: bool = True  # multiplies logits by the gain of `scaling`: one of several encodings does
    circular_axes: bool = False  # accepts `periods`: a whole turn along such an axis changes nothing
    line_reason: str = "tokens on both sides of the seam would be far apart"  # why it does not accept `periods`
    uses_cameras: bool = False  # reads `where.cameras`; backbones that regroup tokens keep cameras only then
    fullgraph: bool = True  # torch.compile and torch.export capture it without graph breaks
    # Precision of the positions for tables() if position_scale is not a power of two, so that float32 would round the
    # product. "own": the dtype of where.positions. "centered": the same, after subtracting the rounded mean of each
    # sample in float64, for biases, which depend only on differences. "float64": for functions of the position itself.
    scaled_positions: ClassVar[Literal["own", "centered", "float64"]] = "own"
    class_at: ClassVar[Literal["nowhere", "center"]] = "nowhere"  # position of the class token if class_at='auto'
    min_dims: int = 1
    max_dims: int | None = None
    no_weight_decay: ClassVar[tuple[str, ...]] = ()  # names of parameters without weight decay

    def __init__(
        self,
        dim: Width,
        heads: Few,
        position_dims: Dims,
        depth: Few,
        position_scale: PerAxis | Literal["auto"] = 1.0,
        shift: NonNegative = 0.0,
        jitter: Factor = 1.0,
        rescale: Factor = 1.0,
        periods: Sequence[Positive | None] | None = None,
    ) -> None:
        """`position_scale` multiplies the positions, by one factor or one per axis. With 'auto', training measures it
        (`from_data`), so that nearest neighbors are about 1 apart.

        Random augmentation of positions in training: `shift` moves all tokens by up to this distance along each axis,
        `jitter` scales each axis by a factor from 1/jitter to jitter, `rescale` all axes from 1/rescale to rescale.

        `periods` are those of circular axes, in the unit of the positions before position_scale, such as [None, 360]
        for rows and azimuths in degrees; None is a line.
        """
        super().__init__()
        name = type(self).__name__
        if isinstance(position_scale, str):
            raise ValueError(not_measured(name, "position_scale", position_scale))
        if dim % heads:
            nearest = dim // heads * heads or heads
            raise ValueError(f"dim must be divisible by heads, got dim={dim} and heads={heads}. Set dim={nearest}")
        if position_dims < self.min_dims or (self.max_dims is not None and position_dims > self.max_dims):
            upper = "or more" if self.max_dims is None else f"to {self.max_dims}"
            raise ValueError(
                f"{name} requires {self.min_dims} {upper} position dimensions, got {position_dims}. "
                "PaPE and AxialRoPE support any number"
            )
        self.dim, self.heads, self.head_dim = dim, heads, dim // heads
        self.position_dims, self.depth = position_dims, depth
        self.position_scale = per_axis(position_scale, position_dims, f"position_scale of {name}")
        self.shift, self.jitter, self.rescale = shift, jitter, rescale
        self.periods = check_periods(periods, position_dims, name, None if self.circular_axes else self.line_reason)
        if len(set(self.position_scale)) > 1:  # a rotated stretched sample is another one
            self.rotation_invariant = False
        if any(self.periods):
            self.rotation_invariant = self.rotation_invariant and position_dims == 1
            if jitter != 1 or rescale != 1:
                raise ValueError(
                    f"jitter and rescale must be 1 with periods, got {jitter:g} and {rescale:g}: a stretched circle "
                    "does not close. Use shift"
                )
        self.scale_positions: PerAxis = 1.0  # position interpolation at test time: train_size / test_size
        self.scaling: Scaling | None = None  # extrapolation at test time, also for rotary encodings

    @classmethod
    def from_data(cls, options: dict[str, Any], wheres: Sequence[Where] | None) -> dict[str, Any]:
        """Return the options with 'auto' replaced by numbers measured from the positions `wheres` of a first batch.

        Without `wheres`, placeholders replace 'auto'.
        """
        if options.get("position_scale") != "auto":
            return options
        spacing = None if wheres is None else Spacing.measure(wheres, (1.0,) * wheres[0].positions.shape[2])
        return options | {"position_scale": 1.0 if spacing is None else [short(1 / unit) for unit in spacing.unit]}

    @property
    def initial_radius(self) -> float | None:
        """The distance, after position_scale, within which the untrained encoding distinguishes positions, if known."""
        return None

    def coverage(self, wheres: Sequence[Where]) -> list[Coverage]:
        """Return which parts of the untrained encoding these positions use."""
        positions = [self.unit(scaled(where.positions.double(), self.factors), where) for where in wheres]
        placed = [replace(where, positions=r) for where, r in zip(wheres, positions)]
        span = Span.measure(placed, (1.0,) * self.position_dims)
        return [] if span is None else self.covers(span)

    def covers(self, span: Span) -> list[Coverage]:
        """Return the coverage for positions in the unit of the encoding; override it to report more than the radius."""
        return [] if self.initial_radius is None else [initial_radius_coverage(self.initial_radius, span)]

    def prepare(self, where: Where) -> Any:
        """Return the state that all layers share (tables, cos and sin), computed once per set of positions."""
        name = type(self).__name__
        if not isinstance(where, Where):
            raise TypeError(
                f"prepare() requires a Where, got {type(where).__name__}. Pass Where(positions), (rows, tokens, axes)"
            )
        dims = where.positions.shape[2]
        if dims != self.position_dims:
            raise ValueError(f"positions for this {name} must have {self.position_dims} dimensions, got {dims}")
        if self.needs_grid and where.grid is None:
            got = "grid=None" if where.valid is None else "padded rows" if where.segment is None else "no where.grids"
            raise ValueError(
                f"{name} requires a full grid, Where(..., grid=(rows, columns)), got {got}. For free "
                f"positions use {self.instead}"
            )
        with without_autocast(where.positions):
            return self.tables(self.to_encoding_unit(where.positions, where), where)

    def refuse_cameras(self, where: Where, backbone: str) -> None:
        """Raise if this encoding would use the cameras of tokens, which a backbone that regroups tokens drops."""
        if self.uses_cameras and where.cameras is not None:
            raise ValueError(
                f"{backbone} expects tokens without cameras for {type(self).__name__}, got where.cameras: it regroups "
                "tokens and keeps only their positions. Use Transformer or UniTR"
            )

    def refuse_circles(self, backbone: str) -> None:
        """Raise if an axis is a circle, for a backbone that groups tokens by their positions on lines."""
        if any(self.periods):
            raise ValueError(
                f"{backbone} expects straight axes, got periods={list(self.periods)}: it groups tokens by their "
                "positions, so that a whole turn would change its groups. Use Transformer, or set periods="
                f"{[None] * self.position_dims}"
            )

    def to_encoding_unit(self, positions: Tensor, where: Where) -> Tensor:
        """Return positions in the encoding's unit of length for tables(), randomly augmented in training."""
        if any(self.periods):
            positions = wrap(positions, self.periods)
        augments = self.augments
        exact = not augments and all(math.frexp(factor)[0] == 0.5 for factor in self.factors)  # powers of two
        finer = not exact and self.scaled_positions != "own"
        r = self.unit(scaled(positions.double() if finer else positions, self.factors), where)
        r = self._augmented(r, where) if augments else r
        if finer and self.scaled_positions == "centered":
            r = centered(r, where)
        return r if self.scaled_positions == "float64" else r.to(where.positions.dtype)

    @property
    def augments(self) -> bool:
        """Whether prepare() draws random numbers."""
        return self.training and (self.shift != 0 or self.jitter != 1 or self.rescale != 1)

    @property
    def factors(self) -> tuple[float, ...]:
        """The factors of positions: position_scale times the interpolation of scale_positions or scaling.

        If the encoding has no frequencies to scale, every kind of scaling interpolates linearly. Circles are not
        interpolated: they are as long in any sample.
        """
        interpolation = per_axis(self.scale_positions, self.position_dims, "scale_positions")
        if self.scaling is not None and (self.scaling.kind == "linear" or not self.scales_waves):
            larger = per_axis(self.scaling.factors, self.position_dims, "scaling")
            interpolation = tuple(a / s for a, s in zip(interpolation, larger))
        interpolation = tuple(1.0 if period else f for f, period in zip(interpolation, self.periods))
        return tuple(a * b for a, b in zip(self.position_scale, interpolation))

    @property
    def circle_lengths(self) -> Periods:
        """The lengths of circular axes in the unit of the encoding; None for lines."""
        return tuple(period and period * scale for period, scale in zip(self.periods, self.position_scale))

    def on_axes(self, layer: LayerEncoding) -> LayerEncoding:
        """Return the layer, which takes differences of its bias the short way round circular axes."""
        if any(self.periods):
            layer.circle_lengths = self.circle_lengths
        return layer

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        """Return scaled positions (B or 1, N, P) in a unit that may depend on the sample."""
        return positions

    def _augmented(self, positions: Tensor, where: Where) -> Tensor:
        """Return positions shifted and scaled about 0 by the same random numbers for the batch (as in DINOv3)."""
        like = where.positions
        draw = torch.rand(2 * self.position_dims + 1, dtype=like.dtype, device=like.device) * 2 - 1
        move, per_dim, common = draw.split([self.position_dims, self.position_dims, 1])
        factor = torch.exp(per_dim * math.log(self.jitter) + common * math.log(self.rescale))
        moved = (positions + move * self.shift) * factor
        return moved if where.real is None else torch.where(where.real[..., None], moved, 0.0)

    def tables(self, positions: Tensor, where: Where) -> Any:
        """Return the state from positions (B or 1, N, P), 0 for padding and unplaced tokens; see `scaled_positions`."""
        return positions

    def embed(self, x: Tensor, state: Any) -> Tensor:
        """Add position embeddings to x (B, N, dim), once per model, before a backbone cuts tokens into rows."""
        return x

    def block_update(self, x: Tensor, state: Any, blocks_done: int) -> Tensor:
        """Update x (B, N, dim) before the first block (`blocks_done` = 0) and after each block (1, 2 ...).

        As in embed(), tokens are not cut into rows, and the state covers all tokens.
        """
        return x

    @property
    def has_block_update(self) -> bool:
        """Whether `block_update` is implemented; if not, a backbone that cuts rows skips its state."""
        return type(self).block_update is not PositionEncoding.block_update

    def layer(self, index: int, depth: int) -> LayerEncoding:
        """Return a NEW module for attention layer `index` of `depth`, owned by the caller: do not store it."""
        return LayerEncoding()

    def embedded(self) -> PositionEncoding:
        """Return the encoding for a stage with embedded tokens: self, or NoPE if it only embeds."""
        kind = type(self)
        if kind.embed is PositionEncoding.embed or kind.layer is not PositionEncoding.layer:
            return self
        return PositionEncoding(self.dim, self.heads, self.position_dims, self.depth)


def per_axis(value: PerAxis, position_dims: int, name: str) -> tuple[float, ...]:
    """Expand one number, or one per axis, to one per axis."""
    values = (float(value),) * position_dims if isinstance(value, (int, float)) else tuple(float(v) for v in value)
    if len(values) != position_dims:
        raise ValueError(f"{name} must be one number or one per position dimension ({position_dims}), got {value!r}")
    return values


def ints_per_axis(value: int | Sequence[int], position_dims: int, name: str) -> tuple[int, ...]:
    """Expand one integer, or one per axis, to one per axis."""
    return tuple(int(v) for v in per_axis(value, position_dims, name))


def short(number: float) -> float:
    """Round a number to 3 digits, as written to configs."""
    return float(f"{number:.3g}")


def not_measured(name: str, option: str, value: str) -> str:
    return (
        f"{option} of {name} must be a number here, got '{value}', which only training replaces. "
        f"Compute it with {name}.from_data(options, [where])"
    )


def class_position(value: str) -> ClassPosition:
    """Return a value of `class_at`, which may have its old spelling; raise ValueError for others."""
    value = current_value("class_at", value, CLASS_POSITIONS.values)
    check_choice("class_at", value, get_args(ClassPosition))
    return cast(ClassPosition, value)


def check_choice(option: str, value: Any, choices: Sequence[Any]) -> None:
    if value not in choices:
        raise ValueError(f"{option} must be {alternatives(map(repr, choices))}, got {value!r}")


def axis_order(axes: Sequence[int] | None, position_dims: int, repo: bool) -> tuple[int, ...]:
    """Return the order of axes over the channels; the PaPE repository puts x before y."""
    if axes is None:
        return (1, 0) if repo and position_dims == 2 else tuple(range(position_dims))
    if sorted(axes) != list(range(position_dims)):
        raise ValueError(f"axes must contain each of 0..{position_dims - 1} once, got {list(axes)}")
    return tuple(axes)


def scaled(positions: Tensor, factors: tuple[float, ...]) -> Tensor:
    """Multiply positions (..., P) by one factor per axis."""
    if all(f == 1.0 for f in factors):
        return positions
    return torch.stack(
        [axis * factor for axis, factor in zip(positions.unbind(-1), factors)], -1
    )  # Python numbers: no transfer to the GPU


def centered(positions: Tensor, where: Where) -> Tensor:
    """Subtract the rounded mean from the positions of each sample, as angles and squares lose precision far from 0.

    Differences are unchanged; tokens without a position are at 0. No value is read on the host, so packed samples are
    centered one by one also on GPUs and in graphs.
    """
    real = where.real
    if positions.shape[1] == 0:
        return positions
    if real is None:
        return positions - positions.detach().mean(1, keepdim=True).round()
    inputs = positions.detach(), real[..., None].to(positions.dtype).expand_as(positions)
    if where.segment is None:
        sums, count = (t.sum(1, keepdim=True) for t in inputs)  # other tokens are at 0
        middle = sums / count.clamp(min=1)
    else:
        run = where.runs()[..., None].expand_as(positions)
        sums, count = (torch.zeros_like(t).scatter_add(1, run, t) for t in inputs)
        middle = (sums / count.clamp(min=1)).gather(1, run)
    return torch.where(real[..., None], positions - middle.round(), 0.0)
