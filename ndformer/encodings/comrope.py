"""ComRoPE: rotations of blocks of channels, whose generators learn and commute."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ndformer.encodings.normalized import normalized
from ndformer.encodings.rotary import angles, near
from ndformer.encodings.skew_matrices import Flow, blockwise
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class ComRoPE(PositionEncoding):
    """q -> exp(sum_p r_p A_p) q, and k likewise, A_p skew, in blocks of `block` channels, such that they commute
    (ComRoPE, Yu et al. 2025): relative exactly. Each layer and head has its own.

    `kind`: 'LD', linearly dependent: A_p = theta_p (B - B') in each block; 'AP', axial partition: B - B' in blocks
    p, p + P, p + 2P ..., 0 in others. B and theta start N(0, 1). Channels beyond the last block pass unturned.
    `normalize`: an axis is 1 long, each by itself ('separate') or all counted in the shortest ('min') or longest
    ('max'), a token's place is its middle, and the sample's middle is 0: unplaced tokens, which are not turned, act
    like tokens there, where the authors put the class token. None leaves places as they come.
    """

    rotation_invariant = False
    scaled_positions = "float64"

    def __init__(
        self,
        *args: Any,
        kind: Literal["LD", "AP"] = "LD",
        block: Width = 8,
        normalize: Literal["separate", "min", "max"] | None = "separate",
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        check_choice("kind", kind, ["LD", "AP"])
        check_choice("normalize", normalize, [None, "separate", "min", "max"])
        self.kind, self.block, self.normalize = kind, block, normalize
        self.blocks = whole_blocks(block, self.head_dim)
        if kind == "AP" and self.blocks < self.position_dims:
            raise ValueError(
                f"kind='AP' has blocks of {block} channels for each axis: a head of {self.head_dim} has {self.blocks} "
                f"of them for {self.position_dims} axes; take smaller blocks, or kind='LD', where each is for all"
            )

    def unit(self, positions: Tensor, where: Where) -> Tensor:
        return positions if self.normalize is None else normalized(positions, where, self.normalize) / 2

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        return near(positions, where)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        axes = self.position_dims if self.kind == "LD" else None
        return _Commuting(self.heads, self.blocks, self.block, axes)


def whole_blocks(block: int, width: int) -> int:
    """How many there are in a head."""
    if not 2 <= block <= width:
        raise ValueError(f"block is how many channels turn together, 2 to {width}, the width of a head; got {block}")
    return width // block


class _Commuting(LayerEncoding):
    no_weight_decay = ("b", "theta")

    def __init__(self, heads: int, blocks: int, block: int, axes: int | None) -> None:
        """`axes`: of theta; None: a block is of one axis."""
        super().__init__()
        self.b = nn.Parameter(torch.randn(heads, blocks, block, block))
        self.theta = None if axes is None else nn.Parameter(torch.randn(heads, blocks, axes))

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        theta = self.theta
        if theta is None:
            own = torch.eye(state.shape[-1], dtype=state.dtype, device=state.device)
            theta = own[torch.arange(self.b.shape[1], device=state.device) % len(own)][None]
        exact = torch.promote_types(q.dtype, torch.float32)
        B = self.b.double()[:, None]
        turns = Flow.apply(B - B.mT, angles(state, theta), exact)[0]  # (B or 1, H, N, blocks, b, b)
        return blockwise(q, turns), blockwise(k, turns)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(ComRoPE)
