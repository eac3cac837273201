"""SaPE2: a bias from the distance between descriptors of two tokens, computed along each axis of a grid (Chen 2025).

Each axis is handled by itself, over its lines: the tokens that share all other coordinates. Equation numbers are those
of the paper; docs/reference/encodings/content.md says what the paper leaves open.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.cope import TableSize, interpolate
from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import Coverage, Span, sums
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

Grid = tuple[int, ...]


@ENCODINGS.register_module()
class SaPE2(PositionEncoding):
    """A bias sign / sqrt(h) sum over axes of |S_i - S_j|, S_i the descriptor of token i along the axis (Chen 2025).

    S_i has an entry z_i . e[p_im] for each token m of the line of i; p_im sums gates sigmoid(q_i . k_l) over m and the
    tokens after it. z_i is the key (`mode='k'`, the paper's best), the query ('q'), or one descriptor of each ('qk').
    The table e, one per axis, has an entry for each integer p up to `npos_max` - 1, the maximum of p; other values are
    interpolated. With `sign=-1` tokens with different descriptors attend to each other less. `preset='code'` divides
    the argument of the gate by sqrt(h).

    Weights of a layer: `tables` e (P, h, npos_max).

    Paper: arXiv:2505.09466.
    """

    needs_grid = True
    instead = "CoPE(two_sided=True), PaPE or ALiBi"
    content_dependent = True
    rotation_invariant = False
    line_reason = "it counts tokens in an order of the positions, and a circle has none"

    def __init__(
        self,
        *args: Any,
        mode: Literal["k", "q", "qk"] = "k",
        npos_max: TableSize = 64,
        sign: Literal[1, -1] = 1,
        preset: Literal["paper", "code"] = "paper",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.mode, self.npos_max, self.sign = mode, npos_max, sign
        self.gate = 1.0 if preset == "paper" else self.head_dim**-0.5

    def covers(self, span: Span) -> list[Coverage]:
        return [sums(f"sums of gates along axis {p}", self.npos_max, n) for p, n in enumerate(span.cells)]

    def tables(self, positions: Tensor, where: Where) -> Grid | None:
        return where.grid

    def layer(self, index: int, depth: int) -> LayerEncoding:
        shape = self.position_dims, self.head_dim, self.npos_max
        return _SaPE2Layer(shape, self.mode, self.gate, self.sign * self.head_dim**-0.5)


class _SaPE2Layer(LayerEncoding):
    no_weight_decay = ("tables",)

    def __init__(self, shape: tuple[int, int, int], mode: str, gate: float, scale: float) -> None:
        super().__init__()
        self.mode, self.gate, self.scale = mode, gate, scale
        self.tables = nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=0.02))  # the gradient at zeros is 0

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Grid) -> Bias:
        exact = torch.promote_types(q.dtype, torch.float32)
        prefix = q.shape[2] - math.prod(state)
        q, k = (t[:, :, prefix:].to(exact).unflatten(2, state) for t in (q, k))  # (B, H, *grid, h)
        descriptors = []
        for axis, table in enumerate(self.tables.to(exact), start=2):
            lines = dict(q=q.movedim(axis, -2), k=k.movedim(axis, -2))  # (B, H, *others, n, h)
            gates = (lines["q"] * self.gate @ lines["k"].mT).sigmoid()  # eq. 9
            p = gates.flip(-1).cumsum(-1).flip(-1)  # eq. 10
            for name in self.mode:
                values = interpolate(lines[name] @ table, p)  # eq. 13 and 14: (B, H, *others, n, n)
                descriptors.append(values.movedim(-2, axis).flatten(2, -2).contiguous())
        return DescriptorBias(descriptors, prefix, self.scale)


class DescriptorBias(Bias):
    """A bias of `scale` times the sum of distances between descriptors (eq. 15, 16), 0 for `prefix` tokens."""

    term = "unlikeness"

    def __init__(self, descriptors: Sequence[Tensor], prefix: int, scale: float) -> None:
        self.descriptors = list(descriptors)  # each (B, H, N - prefix, n)
        self.prefix, self.scale = prefix, scale

    def rows(self, lo: int, hi: int) -> Tensor:
        queries = slice(max(0, lo - self.prefix), max(0, hi - self.prefix))
        distances = [_distances(descriptor[:, :, queries], descriptor) for descriptor in self.descriptors]
        total = sum(distances[1:], distances[0]) * self.scale
        return F.pad(total, (self.prefix, 0, hi - lo - total.shape[2], 0))


def _distances(a: Tensor, b: Tensor) -> Tensor:
    """Return Euclidean distances (..., n, N) of (..., n, width) and (..., N, width), with gradient 0 at 0.

    They are computed from differences: |a|^2 - 2 a'b + |b|^2 is inexact for similar vectors.
    """
    if torch.compiler.is_exporting():  # ONNX has no cdist
        return torch.linalg.vector_norm(a[..., :, None, :] - b[..., None, :, :], dim=-1)
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
