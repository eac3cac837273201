"""GRAPE: a rotation of each head in one learned plane of its channels (Zhang et al. 2026)."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.rotary import RotaryState, angles, rotary_positions
from ndformer.encodings.rotary_directions import golden
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, frequency_vectors, ladder_base
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Positive
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class GRAPE(PositionEncoding):
    """q -> G(r) q, k -> G(r) k with G(r) = exp(w'r L) and a learned L = a b' - b a' of rank 2 (multiplicative GRAPE).

    G rotates the plane of a and b by the angle w'r s, s^2 = |a|^2 |b|^2 - (a'b)^2, and leaves all directions orthogonal
    to it. Each layer and head learns a, b and its frequency vector w. Rotations of one plane commute, so logits are
    relative in any number of dimensions. The paper has one: w spreads over directions here, with sizes
    `base`^(-i / H), and a and b are random with a length near 1. Tokens without a position are not rotated.

    Weights of a layer: `a` and `b` (H, h), `frequencies` (H, 1, P).

    Paper: arXiv:2512.07805.
    """

    rotation_invariant = False
    scaled_positions = "float64"
    line_reason = "its learned frequencies do not stay whole turns"

    def __init__(self, *args: Any, base: Positive = 100.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.base, self.planes = base, id(self)
        if self.head_dim < 2:
            raise ValueError("GRAPE rotates a plane: heads must have 2 channels or more, got 1. Take fewer heads")

    @property
    def initial_radius(self) -> float:
        return math.pi * self.base ** (1 - 1 / self.heads)  # half of the longest wave

    def covers(self, span: Span) -> list[Coverage]:
        return frequency_vectors(
            self.frequencies(), span, lambda longest: f"base={ladder_base(longest, self.heads):.3g}"
        )

    def frequencies(self) -> Tensor:
        """Return the initial frequency vectors (H, 1, P)."""
        return golden(1, 2 * self.heads, self.position_dims, self.base)[0][:, None]

    def tables(self, positions: Tensor, where: Where) -> RotaryState:
        return RotaryState(rotary_positions(positions, where))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _GRAPELayer(self.frequencies().to(torch.get_default_dtype()), self.head_dim)


class _GRAPELayer(LayerEncoding):
    no_weight_decay = ("a", "b", "frequencies")

    def __init__(self, frequencies: Tensor, width: int) -> None:
        super().__init__()
        a, b = torch.randn(2, len(frequencies), width) / math.sqrt(width)
        self.a, self.b, self.frequencies = nn.Parameter(a), nn.Parameter(b), nn.Parameter(frequencies)

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: RotaryState) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(self.a.dtype, torch.float32)
        a, b = self.a.to(exact)[:, None], self.b.to(exact)[:, None]  # (H, 1, h)
        speed = ((a * a).sum(-1) * (b * b).sum(-1) - (a * b).sum(-1).square()).sqrt()[..., None]  # (H, 1, 1)
        angle = angles(state.positions, self.frequencies.to(exact)) * speed  # (B, H, N, 1)
        sin, cos = (angle.sin() / speed).to(exact), ((1 - angle.cos()) / speed.square()).to(exact)

        def rotated(t: Tensor) -> Tensor:
            moved = generated(t.to(exact), a, b)
            return (t + sin * moved + cos * generated(moved, a, b)).to(t.dtype)

        return rotated(q), rotated(k)


def generated(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return L x = a (b'x) - b (a'x) of x (..., h)."""
    return a * (x * b).sum(-1, keepdim=True) - b * (x * a).sum(-1, keepdim=True)
