"""PoPE: every channel of q and k is a length and a phase, what a token holds and where it is."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.rotary import RotaryND
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Positive


@ENCODINGS.register_module()
class PoPE(RotaryND):
    """Polar coordinates: q_i'k_j becomes sum_c mu(q_ic) mu(k_jc) cos(w_c'(r_j - r_i) + delta_c), mu = softplus
    (Gopalakrishnan et al. 2025). What a token holds is a length, where it is a phase: neither changes the other.

    Each channel turns, h in place of RoPE's h / 2 pairs: q and k are twice as wide, v is not. Frequencies are those
    of RotaryND with a head of 2 h, axial unless `directions` say otherwise; channels that are left over do not turn.
    Each layer, head and channel learns a delta, which starts at 0 and is clamped to [-2 pi, 0]. Unplaced tokens act
    like tokens at the origin.
    """

    changes_unplaced = True  # to lengths

    def __init__(self, *args: Any, base: Positive = 10000.0, **rest: Any) -> None:
        super().__init__(*args, base=base, **rest)
        if self.halves or self.tiled:
            raise ValueError(
                "PoPE makes a pair of each channel itself: halves, and presets that pair channels, are RotaryND's; "
                "directions, base, axes and normalize go here too"
            )

    @property
    def turned(self) -> int:
        return 2 * self.head_dim

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Polar(self.heads, self.head_dim, super().layer(index, depth))


class _Polar(LayerEncoding):
    no_weight_decay = ("delta",)

    def __init__(self, heads: int, width: int, turn: LayerEncoding) -> None:
        super().__init__()
        self.delta, self.turn = nn.Parameter(torch.zeros(heads, width)), turn

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(q.dtype, torch.float32)
        delta = self.delta.to(exact).clamp(-2 * math.pi, 0.0)[:, None]  # (H, 1, h)
        lengths, keys = F.softplus(q.to(exact)), F.softplus(k.to(exact))
        polar = _pairs(lengths, torch.zeros_like(lengths)), _pairs(keys * delta.cos(), keys * delta.sin())
        turned = self.turn.qk(*polar, x, state)  # (B, H, N, 2 h)
        return turned[0].to(q.dtype), turned[1].to(k.dtype)


def _pairs(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a, b], dim=-1).flatten(-2)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(PoPE)
