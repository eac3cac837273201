"""LieRE: a rotation of blocks of channels by exp(sum_p r_p A_p), whose generators A_p learn freely."""

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.encodings.comrope import whole_blocks
from ndformer.encodings.normalized import normalized
from ndformer.encodings.rotary import LearnedTurns, ToTurn, near
from ndformer.encodings.skew_matrices import Flow, blockwise, skew
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import Where


class Places(NamedTuple):
    places: Tensor  # (M, P) float64, each once where values can be looked at
    of: Tensor  # (B or 1, N) which of them a token stands at


@ENCODINGS.register_module()
class LieRE(PositionEncoding):
    """q -> exp(sum_p r_p A_p) q, and k likewise, A_p skew, in blocks of `block` channels (LieRE, Ostmeier et al. 2024).

    Blocks of 2 commute, and so does the only generator of one dimension: that is RoPE along learned directions,
    relative. Larger ones do not: logits are no function of r_j - r_i then, and it is declared so. Each layer and head
    has generators of its own; their entries below the diagonal start U(0, 2 pi), as published: all of one sign.
    Channels beyond the last block pass unturned, and so do unplaced tokens. `normalize`: places run from 0, a sample's
    first token, to 1, its last ('ends'), or as RotaryND's.
    """

    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self,
        *args: Any,
        block: Width = 8,
        normalize: Literal["ends", "separate", "min", "max"] | None = "ends",
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        check_choice("normalize", normalize, [None, "ends", "separate", "min", "max"])
        self.block, self.normalize = block, normalize
        self.blocks = whole_blocks(block, self.head_dim)
        self.translation_invariant = block == 2 or self.position_dims == 1

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        return positions if self.normalize is None else normalized(positions, where, self.normalize)

    def tables(self, positions: Tensor, where: Where) -> ToTurn | Places:
        positions = near(positions, where, self.translation_invariant)
        if self.block == 2:
            return ToTurn(positions)
        every = positions.flatten(0, 1).double()
        of = torch.arange(every.shape[0], device=every.device)
        if where.extent is not None and not torch.compiler.is_compiling() and every.shape[0] > 0:
            every, of = every.unique(dim=0, return_inverse=True)
        return Places(every, of.view(positions.shape[:2]))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        entries = self.block * (self.block - 1) // 2
        start = 2 * math.pi * torch.rand(self.heads, self.blocks, self.position_dims, entries)
        if self.block == 2:
            return LearnedTurns(start.squeeze(-1), halves=False, inverse=False)
        return _Generators(start, self.block)


class _Generators(LayerEncoding):
    no_weight_decay = ("entries",)

    def __init__(self, entries: Tensor, block: int) -> None:
        super().__init__()
        self.entries, self.block = nn.Parameter(entries), block  # (H, blocks, P, b (b - 1) / 2)

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Places) -> tuple[Tensor, Tensor]:
        generators = torch.einsum("mp,hnpe->mhne", state.places, self.entries.to(state.places.dtype))
        exact = torch.promote_types(q.dtype, torch.float32)
        turns = Flow.apply(skew(generators, self.block), generators.new_ones(()).expand(generators.shape[:-1]), exact)
        turns = turns[0][state.of].transpose(1, 2)  # (M, H, blocks, b, b) -> (B or 1, H, N, blocks, b, b)
        return blockwise(q, turns), blockwise(k, turns)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(LieRE)
