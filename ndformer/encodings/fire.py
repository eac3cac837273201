"""FIRE: a bias that a small network computes from the distance, relative to the largest distance of the query."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.normalized import bounding_box
from ndformer.encodings.radial_bias import MIN_VALUE, reflect
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.curves import NetworkBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import AUTO, Coverage, Span
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

INITIAL_LENGTH = 1.0  # of L


@ENCODINGS.register_module()
class FIRE(PositionEncoding):
    """A bias f(log(1 + c d) / log(1 + c max(L, D_i))), d = |r_j - r_i|, f a network 1 - 32 - 32 - heads.

    Li et al. 2024, who are causal and in one dimension. c and L are learned, from 0.1 and 1. D_i is the distance from
    the query to the farthest corner of the bounding box of its sample, in one dimension to its farthest token. In a
    sample larger than L, distances therefore count relative to its extent. FlexAttention cannot compute it.

    Weights of a layer: `c`, `length` (L), `network`.

    Paper: arXiv:2310.04418.
    """

    scaled_positions = "centered"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rotation_invariant = self.position_dims == 1  # a rotation changes the bounding box

    def covers(self, span: Span) -> list[Coverage]:
        """Report the initial L, above which a sample's extent normalizes distances."""
        largest, reason = math.hypot(*span.extent), "is longer than any sample, so that no distance is normalized"
        warnings = (f"L, {INITIAL_LENGTH:g}, {reason}: {AUTO}",) if largest < INITIAL_LENGTH else ()
        return [Coverage("L", (INITIAL_LENGTH,), 0, largest, ("", reason), warnings)]

    def tables(self, positions: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        return positions, _max_distance(positions, where)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _FIRELayer(self.heads)


def _max_distance(positions: Tensor, where: Where) -> Tensor:
    """Return the distance (B or 1, N, 1) from each token to the farthest corner of the box around its sample."""
    low, high = bounding_box(positions, where)
    far = torch.maximum(positions - low, high - positions)
    return (far if where.real is None else torch.where(where.real[..., None], far, 0.0)).norm(dim=-1, keepdim=True)


class _FIRELayer(LayerEncoding):
    no_weight_decay = ("c", "length")

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.c, self.length = nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.tensor(INITIAL_LENGTH))
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, heads))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor]) -> Bias:
        positions, max_distance = state
        c = reflect(self.c.to(positions.dtype), MIN_VALUE)
        normalizer = torch.maximum(max_distance, reflect(self.length.to(positions.dtype), MIN_VALUE))
        weights = [weight.to(positions.dtype) for weight in self.network.parameters()]
        return NetworkBias(weights, c, torch.log1p(c * normalizer), positions)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(FIRE)
