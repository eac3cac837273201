"""LieRE (Ostmeier et al. 2024): q and k are rotated by exp(sum_p r_p A_p), with skew matrices A_p learned freely."""

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.encodings.comrope import block_count
from ndformer.encodings.normalized import normalize_positions
from ndformer.encodings.rotary import LearnedRotation, RotaryState, rotary_positions
from ndformer.encodings.skew_matrices import SkewExponential, rotate_blocks, skew
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import Where


class UniquePositions(NamedTuple):
    positions: Tensor  # (M, P) float64, without repetitions where values may be read
    inverse_indices: Tensor  # (B or 1, N) the row of `positions` of each token


@ENCODINGS.register_module()
class LieRE(PositionEncoding):
    """q -> exp(sum_p r_p A_p) q, the same for k, with learned skew generators A_p in blocks of `block` channels.

    Ostmeier et al. 2024. Rotations in blocks of 2 commute, and so do those of one dimension: this is RoPE along learned
    directions, which is relative. Larger blocks do not commute, so logits are no function of r_j - r_i. Each layer and
    head has generators; their entries below the diagonal start uniform in (0, 2 pi), as published. Channels after the
    last block and tokens without a position are not rotated. `normalize`: coordinates run from 0 at a sample's first
    token to 1 at its last ('ends'), or from -1 to 1 per axis ('separate') or in units of the shortest ('min') or
    longest axis ('max'); with None they stay as they are.

    Weights of a layer: `entries` (H, blocks, P, block (block - 1) / 2), or with blocks of 2 `frequencies`.

    Paper: arXiv:2406.10322.
    """

    translation_invariant = False
    rotation_invariant = False
    scaled_positions = "float64"
    line_reason = "its learned frequencies do not stay whole turns"

    def __init__(
        self,
        *args: Any,
        block: Width = 8,
        normalize: Literal["ends", "separate", "min", "max"] | None = "ends",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.block, self.normalize = block, normalize
        self.blocks = block_count(block, self.head_dim)
        self.planes = "neighbors" if block == 2 else id(self)
        self.translation_invariant = block == 2 or self.position_dims == 1

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        return positions if self.normalize is None else normalize_positions(positions, where, self.normalize)

    def tables(self, positions: Tensor, where: Where) -> RotaryState | UniquePositions:
        positions = rotary_positions(positions, where, self.translation_invariant)
        if self.block == 2:
            return RotaryState(positions)
        unique = positions.flatten(0, 1).double()
        index = torch.arange(unique.shape[0], device=unique.device)
        readable = where.extent is not None and not torch.compiler.is_compiling()
        if readable and unique.shape[0] > 0 and not unique.requires_grad:  # unique() has no gradient
            unique, index = unique.unique(dim=0, return_inverse=True)
        return UniquePositions(unique, index.view(positions.shape[:2]))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        entries = self.block * (self.block - 1) // 2
        initial = 2 * math.pi * torch.rand(self.heads, self.blocks, self.position_dims, entries)
        if self.block == 2:
            return LearnedRotation(initial.squeeze(-1), halves=False, inverse=False)
        return _LieRELayer(initial, self.block)


class _LieRELayer(LayerEncoding):
    no_weight_decay = ("entries",)

    def __init__(self, entries: Tensor, block: int) -> None:
        super().__init__()
        self.entries, self.block = nn.Parameter(entries), block  # (H, blocks, P, b (b - 1) / 2)

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: UniquePositions) -> tuple[Tensor, Tensor]:
        generators = torch.einsum("mp,hnpe->mhne", state.positions, self.entries.to(state.positions.dtype))
        exact = torch.promote_types(q.dtype, torch.float32)
        times = generators.new_ones(()).expand(generators.shape[:-1])
        rotations = SkewExponential.apply(skew(generators, self.block), times, exact)[0]  # (M, H, blocks, b, b)
        rotations = rotations[state.inverse_indices].transpose(1, 2)  # (B or 1, H, N, blocks, b, b)
        return rotate_blocks(q, rotations), rotate_blocks(k, rotations)
