"""What a position encoding is: the two classes that every encoding extends.

encoding = build_encoding(dict(type='PaPE', m=50), dim=384, heads=6, position_dims=2, depth=12)     # composed.py
layers = [encoding.layer(i, 12) for i in range(12)]     # one per attention layer, owned by it
state = encoding.prepare(where)                         # once per row layout
x = encoding.embed(x, state)                            # once per model
x = encoding.between_blocks(x, state, i)                # before block i, and after the last
q, k, bias = layers[i](q, k, x, state)                  # in each attention layer
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding.coverage import Coverage, Span, reach_of
from ndformer.framework.encoding.scaling import Scaling
from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.registry.ranges import Dims, Factor, Few, NonNegative, Positive, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Where

PerAxis = Positive | Sequence[Positive]
FROM_DATA = "auto", "spread"  # in the place of a number: training measures the first batch, and writes it down
Preset = Literal["original", "pape_repo"]  # as its authors define an encoding, or as the PaPE paper's repository has it


class PositionEncoding(nn.Module):
    """One per stage: the blocks that share width, heads and position dimensions. By itself it does nothing: NoPE."""

    needs_grid: bool = False  # works only where `where.grid` says that the tokens are a full grid
    instead: str = "PaPE, ALiBi or a rotary one"  # what is for free positions then
    float_positions: bool = True  # False: rounds positions to whole steps
    content_dependent: bool = False  # positions act differently for different tokens
    translation_invariant: bool = True  # a move of all positions changes no logit between placed tokens
    rotation_invariant: bool = True  # so does a turn about the origin
    embeds_unplaced: bool = False  # adds something to tokens without a place too
    changes_unplaced: bool = False  # makes other queries and keys of them too, by what they hold alone
    bounded: bool = False  # beyond a stated extent all places are those of its border
    scales_waves: bool = False  # has frequencies that `scaling` can change
    one_graph: bool = True  # torch.compile and torch.export can take it whole
    # The positions that tables() gets where position_scale is no power of two and float32 would round the product.
    # "own": in the dtype of where.positions. "centered": the same, but a whole number near the mean of each sample is
    # subtracted first, for biases, where differences alone matter. "float64": for functions of the place itself.
    scaled_positions: ClassVar[Literal["own", "centered", "float64"]] = "own"
    class_at: ClassVar[Literal["nowhere", "centre"]] = "nowhere"  # of a class token, under adapters' class_at='auto'
    min_dims: int = 1
    max_dims: int | None = None
    no_weight_decay: ClassVar[tuple[str, ...]] = ()  # names of parameters that optimizers leave undecayed

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
    ) -> None:
        """`position_scale` multiplies the positions, one factor or one per axis: the encoding's own unit of length.
        With 'auto' training measures it (`from_data`): then a token's nearest neighbours are about 1 away.

        In training, each time anew: `shift` moves all tokens by up to so much along each axis, `jitter` stretches each
        axis by a factor of 1/J to J, `rescale` all of them by one of 1/R to R.
        """
        super().__init__()
        name = type(self).__name__
        if isinstance(position_scale, str):
            raise ValueError(not_measured(name, "position_scale", position_scale))
        if dim % heads:
            raise ValueError(f"dim {dim} does not divide into {heads} heads: {dim // heads * heads or heads} would")
        if position_dims < self.min_dims or (self.max_dims is not None and position_dims > self.max_dims):
            most = "or more" if self.max_dims is None else f"to {self.max_dims}"
            raise ValueError(
                f"{name} works for {self.min_dims} {most} position dimensions, got {position_dims}: "
                "PaPE and AxialRoPE take any number"
            )
        self.dim, self.heads, self.head_dim = dim, heads, dim // heads
        self.position_dims, self.depth = position_dims, depth
        self.position_scale = per_axis(position_scale, position_dims, f"position_scale of {name}")
        self.shift, self.jitter, self.rescale = shift, jitter, rescale
        self.scale_positions: PerAxis = 1.0  # position interpolation: set it at test time, to train_size / test_size
        self.scaling: Scaling | None = None  # or this one, which knows ways for rotary encodings too

    @classmethod
    def from_data(cls, options: dict[str, Any], wheres: Sequence[Where] | None) -> dict[str, Any]:
        """An encoding's options with numbers in the place of 'auto', from where the tokens of a first batch are; what
        stands in for them until that is known, without `wheres`."""
        if options.get("position_scale") != "auto":
            return options
        spacing = None if wheres is None else Spacing.of(wheres, (1.0,) * wheres[0].positions.shape[2])
        return options | {"position_scale": 1.0 if spacing is None else [short(1 / unit) for unit in spacing.unit]}

    @property
    def first_reach(self) -> float | None:
        """How far apart tokens may stand, after position_scale, for an untrained encoding to tell where others are."""
        return None

    def coverage(self, wheres: Sequence[Where]) -> list[Coverage]:
        """What tokens at such places use of the encoding, untrained."""
        places = [self.unit(scaled(where.positions.double(), self.factors), where) for where in wheres]
        placed = [replace(where, positions=at) for where, at in zip(wheres, places)]
        span = Span.of(placed, (1.0,) * self.position_dims)
        return [] if span is None else self.covers(span)

    def covers(self, span: Span) -> list[Coverage]:
        """The same, of places in its own unit: the lengths of what it has, and those that such places use."""
        return [] if self.first_reach is None else [reach_of(self.first_reach, span)]

    def prepare(self, where: Where) -> Any:
        """What all layers share for one row layout (tables, cos and sin): called once per layout, not per layer."""
        name, given = type(self).__name__, type(where).__name__
        if not isinstance(where, Where):
            raise TypeError(f"prepare() takes a Where, made of positions (rows, tokens, axes), got {given}")
        dims = where.positions.shape[2]
        if dims != self.position_dims:
            raise ValueError(f"{name} was built for {self.position_dims} position dimensions, got {dims}")
        if self.needs_grid and where.grid is None:
            raise ValueError(
                f"{name} needs tokens on a full grid, Where(..., grid=(rows, columns)): free positions want "
                f"{self.instead}"
            )
        with without_autocast(where.positions):
            return self.tables(self.to_own_unit(where.positions, where), where)

    def to_own_unit(self, positions: Tensor, where: Where) -> Tensor:
        """Return positions in the encoding's unit of length, in training with random moves, as tables() gets them."""
        disturbs = self.training and (self.shift != 0 or self.jitter != 1 or self.rescale != 1)
        exact = not disturbs and all(math.frexp(factor)[0] == 0.5 for factor in self.factors)  # powers of two
        finer = not exact and self.scaled_positions != "own"
        r = self.unit(scaled(positions.double() if finer else positions, self.factors), where)
        r = self._disturbed(r, where) if disturbs else r
        if finer and self.scaled_positions == "centered":
            r = centred(r, where)
        return r if self.scaled_positions == "float64" else r.to(where.positions.dtype)

    @property
    def factors(self) -> tuple[float, ...]:
        """What positions are multiplied with: position_scale times the interpolation set in scale_positions, or in
        scaling, of whatever kind it is where there are no waves to scale."""
        interpolation = per_axis(self.scale_positions, self.position_dims, "scale_positions")
        if self.scaling is not None and (self.scaling.kind == "linear" or not self.scales_waves):
            larger = per_axis(self.scaling.factors, self.position_dims, "scaling")
            interpolation = tuple(a / s for a, s in zip(interpolation, larger))
        return tuple(a * b for a, b in zip(self.position_scale, interpolation))

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        """Scaled positions (B or 1, N, P) in a unit of the sample's own."""
        return positions

    def _disturbed(self, positions: Tensor, where: Where) -> Tensor:
        """Moved and stretched by chance, about 0, one way for the whole batch (DINOv3's augmentation of positions)."""
        like = where.positions
        draw = torch.rand(2 * self.position_dims + 1, dtype=like.dtype, device=like.device) * 2 - 1
        move, each, whole = draw.split([self.position_dims, self.position_dims, 1])
        factor = torch.exp(each * math.log(self.jitter) + whole * math.log(self.rescale))
        moved = (positions + move * self.shift) * factor
        return moved if where.real is None else torch.where(where.real[..., None], moved, 0.0)

    def tables(self, positions: Tensor, where: Where) -> Any:
        """The state, from positions (B or 1, N, P) as `scaled_positions` says. Padding and unplaced stand at 0."""
        return positions

    def embed(self, x: Tensor, state: Any) -> Tensor:
        """(B, N, dim) -> the same, with positions added; once per model, before tokens are cut into rows."""
        return x

    def between_blocks(self, x: Tensor, state: Any, passed: int) -> Tensor:
        """(B, N, dim) -> the same, where `passed` of the stage's blocks are behind: 0 before the first, then 1, 2 ...

        As in embed(), tokens are not cut into rows, and the state is that of all of them.
        """
        return x

    @property
    def acts_between_blocks(self) -> bool:
        """Whether `between_blocks` is written. If not, a backbone that cuts rows need not prepare its state."""
        return type(self).between_blocks is not PositionEncoding.between_blocks

    def layer(self, index: int, depth: int) -> LayerEncoding:
        """A NEW module for attention layer `index` of `depth`, owned by the caller: do not keep it."""
        return LayerEncoding()

    def embedded(self) -> PositionEncoding:
        """For a stage whose tokens an earlier one has embedded: the same, or nothing where all it does is to embed."""
        kind = type(self)
        if kind.embed is PositionEncoding.embed or kind.layer is not PositionEncoding.layer:
            return self
        return PositionEncoding(self.dim, self.heads, self.position_dims, self.depth)


class LayerEncoding(nn.Module):
    """An encoding's part in one attention layer; its weights are the layer's."""

    no_weight_decay: ClassVar[tuple[str, ...]] = ()  # names of parameters that optimizers leave undecayed

    def forward(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor, Bias | None]:
        """Positions put into attention: q, k (B, H, N, h), and the bias for their logits. In float32 under autocast."""
        with without_autocast(q):
            bias = self.bias(q, k, x, state)
            if bias is not None:
                bias.made_for(q)
            q, k = self.qk(q, k, x, state)
        return q, k, bias

    def input(self, x: Tensor, state: Any) -> Tensor:
        """What q, k and v are made from."""
        return x

    def asked(self, x: Tensor, state: Any) -> Tensor:
        """What q and k are made from, where v is made from x, which is as after input(), alone."""
        return x

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """Queries and keys with positions in them; return the dtype that came."""
        return q, k

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias | None:
        """What is added to the scaled logits. q, k as before qk(); x as after input()."""
        return None


def per_axis(value: PerAxis, position_dims: int, what: str) -> tuple[float, ...]:
    """One number or one per axis, as one per axis."""
    values = (float(value),) * position_dims if isinstance(value, (int, float)) else tuple(float(v) for v in value)
    if len(values) != position_dims:
        raise ValueError(f"{what} takes one number or one per position dimension ({position_dims}), got {value!r}")
    return values


def short(number: float) -> float:
    """As a config has it."""
    return float(f"{number:.3g}")


def not_measured(name: str, option: str, value: str) -> str:
    return (
        f"{option}='{value}' of {name} is measured by training, on its first batch: a model of your own takes numbers, "
        f"which {name}.from_data(options, [where]) gives"
    )


def from_repo(preset: Preset) -> bool:
    one_of("preset", preset, ("original", "pape_repo"))
    return preset == "pape_repo"


def one_of(option: str, value: Any, known: Sequence[Any]) -> None:
    if value not in known:
        raise ValueError(f"{option} is {' or '.join(map(repr, known))}, got {value!r}")


def axis_order(axes: Sequence[int] | None, position_dims: int, repo: bool) -> tuple[int, ...]:
    """Which axis owns the first channels, which the next ...; in that repository x comes before y."""
    if axes is None:
        return (1, 0) if repo and position_dims == 2 else tuple(range(position_dims))
    if sorted(axes) != list(range(position_dims)):
        raise ValueError(f"axes names each of the {position_dims} axes once, counted from 0, got {list(axes)}")
    return tuple(axes)


def scaled(positions: Tensor, factors: tuple[float, ...]) -> Tensor:
    """(..., P) times one factor per axis."""
    if all(f == 1.0 for f in factors):
        return positions
    return torch.stack([axis * factor for axis, factor in zip(positions.unbind(-1), factors)], -1)  # nothing is sent


def centred(positions: Tensor, where: Where) -> Tensor:
    """Subtract from the scaled positions of each sample a whole number near their mean: far from 0, angles and squares
    have no digits left. Differences stay as they are; tokens without a place stand at 0. No value is looked at, so that
    packed samples are centered one by one on GPUs and in graphs too.
    """
    real = where.real
    if positions.shape[1] == 0:
        return positions
    if real is None:
        return positions - positions.detach().mean(1, keepdim=True).round()
    known = positions.detach(), real[..., None].to(positions.dtype).expand_as(positions)
    if where.segment is None:
        sums, count = (t.sum(1, keepdim=True) for t in known)  # tokens that are not real stand at 0
        middle = sums / count.clamp(min=1)
    else:
        run = where.runs()[..., None].expand_as(positions)
        sums, count = (torch.zeros_like(t).scatter_add(1, run, t) for t in known)
        middle = (sums / count.clamp(min=1)).gather(1, run)
    return torch.where(real[..., None], positions - middle.round(), 0.0)
