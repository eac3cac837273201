"""PoPE: each channel of q and k is a complex number, its length from the content and its phase from the position."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.rotary import RotaryND
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.registry import ENCODINGS


@ENCODINGS.register_module()
class PoPE(RotaryND):
    """Polar position embedding: q_i'k_j becomes sum_c mu(q_ic) mu(k_jc) cos(w_c'(r_j - r_i) + delta_c), mu = softplus.

    The content of a token is the length of each channel and its position the phase; neither changes the other
    (Gopalakrishnan et al. 2025). Each of the h channels rotates, instead of RoPE's h / 2 pairs: q and k become twice as
    wide, v does not. Frequencies are those of RotaryND with a head width of 2 h, axial by default; it has the options
    of RotaryND except for those that choose pairs. Channels after the last frequency do not rotate. Each layer, head
    and channel learns a phase delta, which starts at 0 and is clamped to [-2 pi, 0]. Tokens without a position act like
    tokens at the origin.

    Weights of a layer: `delta` (H, h), and with `learned` `turn.frequencies`.

    Paper: arXiv:2509.10534.
    """

    changes_unplaced = True  # to lengths
    widens = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.planes = id(self)
        if self.halves or self.tiled:
            raise ValueError(
                "PoPE has no channel pairs, so it takes neither halves nor a preset that pairs channels. Take "
                "directions, base, axes and normalize, or RotaryND"
            )

    @property
    def default_base(self) -> float:
        return 10000.0

    @property
    def rotary_dim(self) -> int:
        return 2 * self.selected_dim

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _PoPELayer(self.heads, self.head_dim, super().layer(index, depth))


class _PoPELayer(LayerEncoding):
    no_weight_decay = ("delta",)

    def __init__(self, heads: int, width: int, rotation: LayerEncoding) -> None:
        super().__init__()
        self.delta, self.turn = nn.Parameter(torch.zeros(heads, width)), rotation

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(q.dtype, torch.float32)
        delta = self.delta.to(exact).clamp(-2 * math.pi, 0.0)[:, None]  # (H, 1, h)
        q_length, k_length = F.softplus(q.to(exact)), F.softplus(k.to(exact))
        polar_q = _interleave(q_length, torch.zeros_like(q_length))
        polar_k = _interleave(k_length * delta.cos(), k_length * delta.sin())
        rotated_q, rotated_k = self.turn.qk(polar_q, polar_k, x, state)  # (B, H, N, 2 h)
        return rotated_q.to(q.dtype), rotated_k.to(k.dtype)


def _interleave(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a, b], dim=-1).flatten(-2)
