"""STRING (Cayley-STRING, Schenck et al. 2025): RoPE in a learned orthogonal basis of the channels of each head."""

from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.rotary import LearnedRotation, RotaryND, RotaryState
from ndformer.encodings.skew_matrices import cayley, skew
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.registry import ENCODINGS


@ENCODINGS.register_module()
class STRING(RotaryND):
    """q -> RoPE(r) P q, k -> RoPE(r) P k with a learned rotation P = (I - S) (I + S)^-1, S skew (Schenck et al. 2025).

    P rotates all channels of a head before the rotation by r; after it, P would cancel in q'k. Each layer and head
    learns S and its frequency vectors. S starts at 0, where the encoding is RotaryND with learned frequencies. It has
    the options of RotaryND. Logits are relative. Tokens without a position are multiplied by P alone.

    Weights of a layer: `frequencies` (H, pairs, P), `skew` (H, h (h - 1) / 2), the entries of S below the diagonal.

    Paper: arXiv:2502.02562.
    """

    changes_unplaced = True  # multiplies them by P
    line_reason = "its learned frequencies do not stay whole turns"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, learned=True, **kwargs)
        self.planes = id(self)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        frequencies = self.frequencies().to(torch.get_default_dtype())
        return _STRINGLayer(frequencies.expand(self.heads, -1, -1).clone(), self.halves, self.head_dim)


class _STRINGLayer(LearnedRotation):
    no_weight_decay = (*LearnedRotation.no_weight_decay, "skew")

    def __init__(self, frequencies: Tensor, halves: bool, width: int) -> None:
        super().__init__(frequencies, halves, inverse=False)
        self.skew = nn.Parameter(torch.zeros(len(frequencies), width * (width - 1) // 2))

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: RotaryState) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(q.dtype, torch.float32)
        P = cayley(skew(self.skew.to(exact), q.shape[-1]))  # (H, h, h)
        rotated_q, rotated_k = super().qk(q.to(exact) @ P.mT, k.to(exact) @ P.mT, x, state)
        return rotated_q.to(q.dtype), rotated_k.to(k.dtype)
