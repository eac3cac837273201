"""ComRoPE (Yu et al. 2025): q and k are rotated by exp(sum_p r_p A_p), with learned matrices A_p that commute."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ndformer.encodings.normalized import normalize_positions
from ndformer.encodings.rotary import angles, rotary_positions
from ndformer.encodings.skew_matrices import SkewExponential, rotate_blocks
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class ComRoPE(PositionEncoding):
    """q -> exp(sum_p r_p A_p) q, the same for k, with learned skew generators A_p that commute, so it is relative.

    Yu et al. 2025. Generators have blocks of `block` channels and belong to a layer and head. `kind='LD'`, linearly
    dependent: A_p = theta_p (B - B') in each block. `kind='AP'`, axial partition: B - B' in blocks p, p + P, ...,
    and 0 in the others. B and theta start as N(0, 1). Channels after the last block are not rotated.

    `normalize`: the center of a sample is 0 and each axis has length 1 ('separate'), or all axes are in units of the
    shortest ('min') or longest ('max'); None leaves positions as they are. Tokens without a position are not rotated:
    they act like tokens at the center, where the authors put the class token.

    Weights of a layer: `b` (H, blocks, block, block) and, with 'LD', `theta` (H, blocks, P).

    Paper: arXiv:2506.03737.
    """

    rotation_invariant = False
    scaled_positions = "float64"
    line_reason = "its learned frequencies do not stay whole turns"

    def __init__(
        self,
        *args: Any,
        kind: Literal["LD", "AP"] = "LD",
        block: Width = 8,
        normalize: Literal["separate", "min", "max"] | None = "separate",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.kind, self.block, self.normalize = kind, block, normalize
        self.blocks, self.planes = block_count(block, self.head_dim), id(self)
        if kind == "AP" and self.blocks < self.position_dims:
            raise ValueError(
                f"kind='AP' needs a block of {block} channels for each of {self.position_dims} axes, got {self.blocks} "
                f"in a head of {self.head_dim}. Take smaller blocks, or kind='LD', whose blocks serve all axes"
            )

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        return positions if self.normalize is None else normalize_positions(positions, where, self.normalize) / 2

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        return rotary_positions(positions, where)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        axes = self.position_dims if self.kind == "LD" else None
        return _ComRoPELayer(self.heads, self.blocks, self.block, axes)


def block_count(block: int, width: int) -> int:
    """Return how many blocks of `block` channels a head of `width` channels has."""
    if not 2 <= block <= width:
        raise ValueError(f"block must be from 2 to {width} channels, the width of a head, got {block}")
    return width // block


class _ComRoPELayer(LayerEncoding):
    no_weight_decay = ("b", "theta")

    def __init__(self, heads: int, blocks: int, block: int, axes: int | None) -> None:
        """`axes` is the number of axes of theta, None for kind='AP'."""
        super().__init__()
        self.b = nn.Parameter(torch.randn(heads, blocks, block, block))
        self.theta = None if axes is None else nn.Parameter(torch.randn(heads, blocks, axes))

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        theta = self.theta
        if theta is None:
            unit_vectors = torch.eye(state.shape[-1], dtype=state.dtype, device=state.device)
            theta = unit_vectors[torch.arange(self.b.shape[1], device=state.device) % len(unit_vectors)][None]
        exact = torch.promote_types(q.dtype, torch.float32)
        B = self.b.double()[:, None]
        rotations = SkewExponential.apply(B - B.mT, angles(state, theta), exact)[0]  # (B or 1, H, N, blocks, b, b)
        return rotate_blocks(q, rotations), rotate_blocks(k, rotations)
