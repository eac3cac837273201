"""FIRE: a bias that a small network computes from the distance, relative to the largest distance of the query."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.normalized import bounding_box
from ndformer.encodings.radial_bias import reflect
from ndformer.framework.bias.base import Bias, PositionBias, norm
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.circles import Periods
from ndformer.framework.encoding.coverage import AUTO, Coverage, Span
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import NonNegative
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Rows, Where

INITIAL_LENGTH = 1.0  # of L


@ENCODINGS.register_module()
class FIRE(PositionEncoding):
    """A bias f(log(1 + c d) / log(1 + c max(L, D_i))), d = |r_j - r_i|, f a network 1 - 32 - 32 - heads.

    Li et al. 2024, who are causal and in one dimension. c and L are learned, from 0.1 and 1. D_i is the distance from
    the query to the farthest corner of the bounding box of its sample, in one dimension to its farthest token. In a
    sample larger than L, distances therefore count relative to its extent. A circle is a side of the box as a whole, so
    that its farthest point is half a period away. FlexAttention cannot compute this bias.

    c and L are reflected at `min_value`; `epsilon` is added to the denominator. The authors' code is `min_value=0`, the
    absolute values of c and L, and `epsilon=1e-6`; its L starts at 512, and its network has one hidden layer.

    Weights of a layer: `c`, `length` (L), `network`.

    Paper: arXiv:2310.04418.
    """

    scaled_positions = "centered"
    circular_axes = True

    def __init__(self, *args: Any, min_value: NonNegative = 0.01, epsilon: NonNegative = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.min_value, self.epsilon = min_value, epsilon
        self.rotation_invariant = self.position_dims == 1  # a rotation changes the bounding box

    def covers(self, span: Span) -> list[Coverage]:
        """Report the initial L, above which a sample's extent normalizes distances."""
        largest, reason = math.hypot(*span.extent), "is longer than any sample, so that no distance is normalized"
        warnings = (f"L, {INITIAL_LENGTH:g}, {reason}: {AUTO}",) if largest < INITIAL_LENGTH else ()
        return [Coverage("L", (INITIAL_LENGTH,), 0, largest, ("", reason), warnings)]

    def tables(self, positions: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        return positions, _max_distance(positions, where, self.circle_lengths)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes(_FIRELayer(self.heads, self.min_value, self.epsilon))


def _max_distance(positions: Tensor, where: Where, lengths: Periods) -> Tensor:
    """Return the distance (B or 1, N, 1) from each token to the farthest corner of the box around its sample."""
    low, high = bounding_box(positions, where)
    far = torch.maximum(positions - low, high - positions)
    if any(lengths):
        axes = zip(far.unbind(-1), lengths)
        far = torch.stack([axis if length is None else torch.full_like(axis, length / 2) for axis, length in axes], -1)
    return (far if where.real is None else torch.where(where.real[..., None], far, 0.0)).norm(dim=-1, keepdim=True)


class _FIRELayer(LayerEncoding):
    no_weight_decay = ("c", "length")

    def __init__(self, heads: int, min_value: float, epsilon: float) -> None:
        super().__init__()
        self.min_value, self.epsilon = min_value, epsilon
        self.c, self.length = nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.tensor(INITIAL_LENGTH))
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, heads))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor]) -> Bias:
        positions, max_distance = state
        c, length = (reflect(weight.to(positions.dtype), self.min_value) for weight in (self.c, self.length))
        divisor = torch.log1p(c * torch.maximum(max_distance, length))
        weights = [weight.to(positions.dtype) for weight in self.network.parameters()]
        return NetworkBias(weights, c, divisor + self.epsilon if self.epsilon else divisor, positions)


class NetworkBias(PositionBias):
    """A bias network(log(1 + c |r_j - r_i|) / divisor_i) from a small network with one output per head."""

    term = "distance"

    def __init__(self, weights: Sequence[Tensor], c: Tensor, divisor: Tensor, positions: Tensor) -> None:
        """`weights`: matrix and vector of each linear layer, with ReLU between them; `divisor`: (B or 1, N, 1)."""
        super().__init__(positions)
        self.weights, self.c, self.divisor = list(weights), c, divisor

    def rows(self, lo: int, hi: int) -> Tensor:
        share = torch.log1p(self.c * norm(self.differences(lo, hi))) / self.divisor[:, lo:hi]  # (B or 1, n, N)
        with without_autocast(share):
            y = F.linear(share[..., None], *self.weights[:2])
            for layer in range(2, len(self.weights), 2):
                y = F.linear(y.relu(), *self.weights[layer : layer + 2])
            return y.permute(0, 3, 1, 2)

    def cut(self, rows: Rows) -> Bias:
        divisor = rows.gather(self.divisor.flatten(0, 1)) + (~rows.valid[..., None]).to(self.divisor.dtype)
        return NetworkBias(self.weights, self.c, divisor, self.cut_positions(rows))
