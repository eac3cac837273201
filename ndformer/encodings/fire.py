"""FIRE: a learned function of the distance, as a share of the largest there is."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.encodings.normalized import box
from ndformer.encodings.radial_bias import LEAST, mirrored
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.curves import NetworkBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import AUTO, Coverage, Span
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

LENGTH = 1.0  # that L begins with


@ENCODINGS.register_module()
class FIRE(PositionEncoding):
    """f(log(1 + c d) / log(1 + c max(L, D_i))) added to the logits, d = |r_j - r_i| (Li et al. 2024, who are causal and
    of one dimension). f is a network 1 - 32 - 32 - heads, c and L learn, from 0.1 and 1.

    D_i normalises: the distance from the query to the farthest corner of the box about its sample, on a line that to
    its farthest token. So a larger sample is looked at as a smaller one, drawn out. Flex cannot use it.
    """

    scaled_positions = "centered"

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.rotation_invariant = self.position_dims == 1  # a box turns into another one

    def covers(self, span: Span) -> list[Coverage]:
        """L, up to which samples are not drawn out: c and L are as they begin."""
        widest, why = math.hypot(*span.extent), "is longer than any sample, so that none is drawn out"
        said = (f"L, {LENGTH:g}, {why}: {AUTO}",) if widest < LENGTH else ()
        return [Coverage("L", (LENGTH,), 0, widest, ("", why), said)]

    def tables(self, positions: Tensor, where: Where) -> tuple[Tensor, Tensor]:
        return positions, _farthest(positions, where)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return _Network(self.heads)


def _farthest(positions: Tensor, where: Where) -> Tensor:
    """(B or 1, N, 1): how far the farthest corner of the box about a token's sample is."""
    low, high = box(positions, where)
    far = torch.maximum(positions - low, high - positions)
    return (far if where.real is None else torch.where(where.real[..., None], far, 0.0)).norm(dim=-1, keepdim=True)


class _Network(LayerEncoding):
    no_weight_decay = ("c", "length")

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.c, self.length = nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.tensor(LENGTH))
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, heads))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: tuple[Tensor, Tensor]) -> Bias:
        positions, farthest = state
        c = mirrored(self.c.to(positions.dtype), LEAST)
        whole = torch.maximum(farthest, mirrored(self.length.to(positions.dtype), LEAST))
        weights = [weight.to(positions.dtype) for weight in self.network.parameters()]
        return NetworkBias(weights, c, torch.log1p(c * whole), positions)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(FIRE)
