"""PEMixer, the PEmixer of ViTARC: ten ways to combine a token with its position embedding (Li 2024)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.base import PerAxis, not_measured, per_axis, scaled
from ndformer.framework.encoding.composed import Composed, build_encoding, with_periods
from ndformer.framework.kernels import attend
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Dims, Few, Positive, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Where


class WeightedSum(nn.Module):
    """x + e, both divided by their lengths with `unit`, and multiplied by learned weights.

    `scale` and `weights` are the numbers of weights of e alone, or of each of both: 0, 1 or one for each channel.
    """

    def __init__(self, unit: bool = False, scale: int = 0, weights: int = 0) -> None:
        super().__init__()
        self.unit = unit
        self.scale, self.of_token, self.of_position = (
            nn.Parameter(torch.ones(size)) if size else None for size in (scale, weights, weights)
        )

    def forward(self, x: Tensor, e: Tensor, where: Where) -> Tensor:
        if self.unit:
            x, e = F.normalize(x, dim=-1), F.normalize(e, dim=-1)
        x = x if self.of_token is None else self.of_token.to(x.dtype) * x
        for weight in (self.scale, self.of_position):
            e = e if weight is None else weight.to(x.dtype) * e
        return x + e


class NormedSum(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, e: Tensor, where: Where) -> Tensor:
        norm = self.norm
        return F.layer_norm(x + e, norm.normalized_shape, norm.weight.to(x.dtype), norm.bias.to(x.dtype), norm.eps)


class PositionalAttention(nn.Module):
    """x + attention of x to the embeddings e of its sample; initialized as nn.MultiheadAttention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(
                f"dim {dim} does not divide into {heads} heads of positional attention: set attention_heads"
            )
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.proj.bias)

    def forward(self, x: Tensor, e: Tensor, where: Where) -> Tensor:
        weights, biases = (p.to(x.dtype).chunk(3) for p in (self.qkv.weight, self.qkv.bias))
        projected = (F.linear(t, weight, bias) for t, weight, bias in zip((x, e, e), weights, biases))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in projected)  # (B, H, N, h)
        attended = attend(q, k, v, where).transpose(1, 2).flatten(2)
        return x + F.linear(attended, self.proj.weight.to(x.dtype), self.proj.bias.to(x.dtype))


# name: constructor, called with the width of tokens and attention_heads
STRATEGIES: dict[str, Callable[[int, int], nn.Module]] = {
    "default": lambda dim, heads: WeightedSum(),
    "hardcoded_normalization": lambda dim, heads: WeightedSum(unit=True),
    "learnable_scaling": lambda dim, heads: WeightedSum(scale=1),
    "learnable_scaling_vec": lambda dim, heads: WeightedSum(scale=dim),
    "weighted_sum": lambda dim, heads: WeightedSum(unit=True, weights=1),
    "weighted_sum_vec": lambda dim, heads: WeightedSum(unit=True, weights=dim),
    "weighted_sum_no_norm": lambda dim, heads: WeightedSum(weights=1),
    "weighted_sum_no_norm_vec": lambda dim, heads: WeightedSum(weights=dim),
    "positional_attention": PositionalAttention,
    "layer_norm": lambda dim, heads: NormedSum(dim),
}
Strategy = Literal[
    "default",
    "hardcoded_normalization",
    "learnable_scaling",
    "learnable_scaling_vec",
    "weighted_sum",
    "weighted_sum_vec",
    "weighted_sum_no_norm",
    "weighted_sum_no_norm_vec",
    "positional_attention",
    "layer_norm",
]


def _scaled_parts(encoding: PositionEncoding) -> list[PositionEncoding]:
    """Return the encodings that multiply positions by their position_scale: lists and mixers pass positions on."""
    return [e for part in encoding.parts for e in _scaled_parts(part)] if isinstance(encoding, Composed) else [encoding]


@ENCODINGS.register_module()
class PEMixer(Composed):
    """PEmixer of ViTARC (Li 2024): tokens x and a position embedding e are combined by one of ten strategies.

    e is the embedding that the encoding `second` adds to tokens; x are the tokens, after the encoding `first` has added
    its own (None by default, as published). The result is

        default                     x + e
        hardcoded_normalization     x/|x| + e/|e|
        learnable_scaling           x + s e
        weighted_sum                a x/|x| + b e/|e|
        weighted_sum_no_norm        a x + b e
        positional_attention        x + attention of x to the e of all tokens, with `attention_heads` heads
        layer_norm                  LayerNorm(x + e)

    with s, a and b learned, from 1; strategies that end in `_vec` have one for each channel. |.| is the Euclidean norm
    of a token. Tokens without a position stay as they are, unless one of the encodings has an embedding for them. What
    the two encodings add to logits or between blocks, they add as in a list of encodings.

    Paper: arXiv:2410.06405.
    """

    def __init__(
        self,
        dim: Width,
        heads: Few,
        position_dims: Dims,
        depth: Few,
        strategy: Strategy = "weighted_sum_no_norm_vec",
        first: dict[str, Any] | None = None,
        second: dict[str, Any] | None = None,
        attention_heads: Few = 8,
        position_scale: PerAxis | Literal["auto"] = 1.0,
        periods: Sequence[Positive | None] | None = None,
    ) -> None:
        """`second` is Sincos by default. `position_scale` multiplies the scales of both encodings.

        `periods` are those of circular axes, in the unit of the positions, for both encodings.
        """
        if isinstance(position_scale, str):
            raise ValueError(not_measured("PEMixer", "position_scale", position_scale))
        sizes = dict(dim=dim, heads=heads, position_dims=position_dims, depth=depth)
        configs = [first or dict(type="NoPE"), second or dict(type="Sincos")]
        parts = [build_encoding(part if periods is None else with_periods(part, periods), **sizes) for part in configs]
        super().__init__(parts)
        added = parts[1]
        if type(added).embed is PositionEncoding.embed:
            raise ValueError(
                f"second is an encoding that adds an embedding to tokens, got {type(added).__name__}. Take Sincos or "
                f"another embedding, and put {type(added).__name__} next to PEMixer in a list of encodings"
            )
        scale = per_axis(position_scale, position_dims, "position_scale of PEMixer")
        for part in _scaled_parts(self):
            part.position_scale = tuple(a * b for a, b in zip(part.position_scale, scale))
        self.mix = STRATEGIES[strategy](dim, attention_heads)

    @classmethod
    def from_data(cls, options: dict[str, Any], wheres: Sequence[Where] | None) -> dict[str, Any]:
        """Measure the mixer's position_scale first, since it multiplies the positions that its encodings measure."""
        options = super().from_data(options, wheres)
        if wheres is not None:
            factors = per_axis(options.get("position_scale", 1.0), wheres[0].positions.shape[2], "position_scale")
            wheres = [replace(where, positions=scaled(where.positions.double(), factors)) for where in wheres]
        nested = {name: part for name, part in options.items() if isinstance(part, dict)}
        return options | {n: ENCODINGS.get(part["type"]).from_data(dict(part), wheres) for n, part in nested.items()}

    def prepare(self, where: Where) -> Any:
        states = super().prepare(where)
        if where.placed is not None and not self.embeds_unplaced:
            where = Where(where.positions, valid=where.real, segment=where.segment)
        return *states, where  # where.valid: the tokens to mix

    def embed(self, x: Tensor, state: Any) -> Tensor:
        *states, where = state
        first, second = self.parts
        y = first.embed(x, states[0])
        mask = None if where.valid is None else where.valid[..., None]
        masked = y if mask is None else y.masked_fill(~mask, 0)  # NaN in padding would reach the gradients of weights
        with without_autocast(x):
            exact = torch.promote_types(x.dtype, torch.float32)
            e = second.embed(torch.zeros_like(masked, dtype=exact), states[1])
            mixed = self.mix(masked.to(exact), e, where).to(x.dtype)
        return mixed if mask is None else torch.where(mask, mixed, y)
