"""LaPE: a code of positions given to every layer, which normalises it anew."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import scaled
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.encoding.coverage import Coverage
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

State = dict[int, Tensor]  # layer -> (B, N, dim)


@ENCODINGS.register_module()
class LaPE(PositionEncoding):
    """An absolute encoding added not to the tokens but, in each layer, to what its q, k and v are made from (Yu 2023).

    Each layer has a layer norm for the code, and goes on from what the one before it made of it. `encoding` is any
    that is added to the tokens: dict(type='LearnableAbsolute', grid=14); None is Sincos. Weights: `norms`, one for each
    layer, and those of the encoding.
    """

    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(self, *args: Any, encoding: dict[str, Any] | None = None, **rest: Any) -> None:
        super().__init__(*args, **rest)
        place: dict[str, int] = dict(dim=self.dim, heads=self.heads, position_dims=self.position_dims, depth=self.depth)
        self.encoding = build_encoding(dict(type="Sincos") if encoding is None else encoding, **place)
        kind = type(self.encoding)
        if kind.embed is PositionEncoding.embed or self.encoding.content_dependent:
            raise ValueError(
                f"LaPE takes an encoding that is added to the tokens, such as Sincos, and {kind.__name__} is not: use "
                "it without LaPE"
            )
        self.needs_grid, self.instead = self.encoding.needs_grid, self.encoding.instead
        self.bounded = self.encoding.bounded
        self.float_positions = self.encoding.float_positions
        self.embeds_unplaced = self.encoding.embeds_unplaced
        self.norms = nn.ModuleDict()
        self.chain: list[int] = []  # the layers that have one, first to last

    @property
    def initial_radius(self) -> float | None:
        return self.encoding.initial_radius

    def coverage(self, wheres: Sequence[Where]) -> list[Coverage]:
        places = [scaled(where.positions.double(), self.factors) for where in wheres]
        return self.encoding.coverage([replace(where, positions=at) for where, at in zip(wheres, places)])

    def layer(self, index: int, depth: int) -> LayerEncoding:
        if str(index) not in self.norms:
            self.norms[str(index)] = nn.LayerNorm(self.dim, eps=1e-6)
            self.chain = sorted([*self.chain, index])
        return _Added(index)

    def tables(self, positions: Tensor, where: Where) -> State:
        state = self.encoding.tables(self.encoding.to_encoding_unit(positions, where), where)
        code = self.encoding.embed(where.positions.new_zeros(*positions.shape[:2], self.dim), state)
        codes: State = {}
        for index in self.chain:
            norm = cast(nn.LayerNorm, self.norms[str(index)])
            code = F.layer_norm(code, (self.dim,), norm.weight.to(code.dtype), norm.bias.to(code.dtype), norm.eps)
            codes[index] = code
        if where.real is None or self.embeds_unplaced:
            return codes
        return {index: code.masked_fill(~where.real[..., None], 0) for index, code in codes.items()}


class _Added(LayerEncoding):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def input(self, x: Tensor, state: State) -> Tensor:
        return x + state[self.index].to(x.dtype)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(LaPE)
