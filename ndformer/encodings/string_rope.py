"""Cayley-STRING: RoPE in a basis of channels that each head learns."""

from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.rotary import LearnedTurns, RotaryND, ToTurn
from ndformer.encodings.skew_matrices import cayley, skew
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.registry import ENCODINGS


@ENCODINGS.register_module()
class STRING(RotaryND):
    """q -> RoPE(r) P q, and k likewise, P = (I - S) (I + S)^-1, S skew (Cayley-STRING, Schenck et al. 2025): relative.

    P, a rotation of all channels of a head, comes before the turn by r: behind it, it would cancel in q'k. S and the
    frequencies, a number for each axis, are each layer's and head's own; S starts at 0, where it is RotaryND with
    learned frequencies, whose options it has. Unplaced tokens are not turned by RoPE.
    """

    changes_unplaced = True  # by P

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, learned=True, **rest)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        frequencies = self.frequencies().to(torch.get_default_dtype())
        return _InItsBasis(frequencies.expand(self.heads, -1, -1).clone(), self.halves, self.head_dim)


class _InItsBasis(LearnedTurns):
    no_weight_decay = (*LearnedTurns.no_weight_decay, "skew")

    def __init__(self, frequencies: Tensor, halves: bool, width: int) -> None:
        super().__init__(frequencies, halves, inverse=False)
        self.skew = nn.Parameter(torch.zeros(len(frequencies), width * (width - 1) // 2))

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: ToTurn) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(q.dtype, torch.float32)
        P = cayley(skew(self.skew.to(exact), q.shape[-1]))  # (H, h, h)
        turned = super().qk(q.to(exact) @ P.mT, k.to(exact) @ P.mT, x, state)
        return turned[0].to(q.dtype), turned[1].to(k.dtype)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(STRING)
