"""LaPE: an absolute embedding added to the input of each attention layer, through a layer norm of its own (Yu 2023)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import per_axis, scaled
from ndformer.framework.encoding.composed import Composed, build_encoding, with_periods
from ndformer.framework.encoding.coverage import Coverage
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

State = dict[int, Tensor]  # layer -> (B, N, dim)


@ENCODINGS.register_module()
class LaPE(PositionEncoding):
    """An absolute embedding e added to the input of q, k and v in each layer: x + e_l, e_l = LayerNorm_l(e_(l-1)).

    The tokens themselves, and so the residual stream, do not get it (Yu 2023). Layer norms follow one another: that of
    a layer gets the output of the one before. `encoding` is the config of any encoding that is added to the tokens, as
    dict(type='LearnableAbsolute', grid=14); None is Sincos.

    Weights, shared by all layers: `norms`, one layer norm per layer, and those of `encoding`.

    Paper: arXiv:2212.05262.
    """

    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"
    circular_axes = True

    def __init__(self, *args: Any, encoding: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sizes: dict[str, int] = dict(dim=self.dim, heads=self.heads, position_dims=self.position_dims, depth=self.depth)
        cfg = dict(type="Sincos") if encoding is None else encoding
        self.encoding = build_encoding(with_periods(cfg, self.circle_lengths) if any(self.periods) else cfg, **sizes)
        kind = type(self.encoding)
        composed = issubclass(kind, Composed)  # its embedding is more than a sum, as PEMixer's
        if kind.embed is PositionEncoding.embed or self.encoding.content_dependent or composed:
            raise ValueError(
                f"LaPE takes an encoding that is added to the tokens, such as Sincos, got {kind.__name__}. Use it "
                "without LaPE"
            )
        self.needs_grid, self.instead = self.encoding.needs_grid, self.encoding.instead
        self.bounded, self.circular_axes = self.encoding.bounded, self.encoding.circular_axes
        self.float_positions = self.encoding.float_positions
        self.embeds_unplaced = self.encoding.embeds_unplaced
        self.norms = nn.ModuleDict()
        self.layer_indices: list[int] = []  # of the layers that have a norm, ascending

    @classmethod
    def from_data(cls, options: dict[str, Any], wheres: Sequence[Where] | None) -> dict[str, Any]:
        """Measure LaPE's position_scale first, since it multiplies the positions that its encoding measures."""
        options, encoding = super().from_data(options, wheres), options.get("encoding")
        if encoding is None:
            return options
        if wheres is not None:
            factors = per_axis(options.get("position_scale", 1.0), wheres[0].positions.shape[2], "position_scale")
            wheres = [replace(where, positions=scaled(where.positions.double(), factors)) for where in wheres]
        return options | {"encoding": ENCODINGS.get(encoding["type"]).from_data(dict(encoding), wheres)}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("periods", "position_scale") and "encoding" in self._modules and any(self.periods):
            self.encoding.periods = self.circle_lengths

    @property
    def initial_radius(self) -> float | None:
        return self.encoding.initial_radius

    def coverage(self, wheres: Sequence[Where]) -> list[Coverage]:
        positions = [scaled(where.positions.double(), self.factors) for where in wheres]
        return self.encoding.coverage([replace(where, positions=r) for where, r in zip(wheres, positions)])

    def layer(self, index: int, depth: int) -> LayerEncoding:
        if str(index) not in self.norms:
            self.norms[str(index)] = nn.LayerNorm(self.dim, eps=1e-6)
            self.layer_indices = sorted([*self.layer_indices, index])
        return _LaPELayer(index)

    def tables(self, positions: Tensor, where: Where) -> State:
        state = self.encoding.tables(self.encoding.to_encoding_unit(positions, where), where)
        e = self.encoding.embed(where.positions.new_zeros(*positions.shape[:2], self.dim), state)
        embeddings: State = {}
        for index in self.layer_indices:
            norm = cast(nn.LayerNorm, self.norms[str(index)])
            e = F.layer_norm(e, (self.dim,), norm.weight.to(e.dtype), norm.bias.to(e.dtype), norm.eps)
            embeddings[index] = e
        if where.real is None or self.embeds_unplaced:
            return embeddings
        return {index: e.masked_fill(~where.real[..., None], 0) for index, e in embeddings.items()}


class _LaPELayer(LayerEncoding):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def input(self, x: Tensor, state: State) -> Tensor:
        return x + state[self.index].to(x.dtype)
