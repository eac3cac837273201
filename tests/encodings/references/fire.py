"""FIRE: a network of the distance relative to the farthest corner of the sample's box."""

from itertools import product

import torch
from torch import Tensor

from tests.encodings.references.radial_bias import Radial, length, reflected


class FIRE(Radial):
    pointwise = False

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        c, length_scale = self.weights["encoding.c"], self.weights["encoding.length"]
        layers = [[self.weights[f"encoding.network.{i}.{name}"] for name in ("weight", "bias")] for i in (0, 2, 4)]
        c, length_scale = reflected(c, 0.01), reflected(length_scale, 0.01)
        (w0, b0), (w1, b1), (w2, b2) = layers
        d, placed = self.d, self.r[self.placed]
        values = torch.zeros_like(d)
        for i in self.placed.nonzero().flatten().tolist():
            box = zip(placed.min(0).values.tolist(), placed.max(0).values.tolist())
            sides = [[L / 2] if L else [a - r, b - r] for (a, b), r, L in zip(box, self.r[i].tolist(), self.lengths)]
            far = max(length(torch.tensor(corner, dtype=d.dtype)) for corner in product(*sides))
            share = torch.log(1 + c * d[i]) / torch.log(1 + c * torch.maximum(far, length_scale))
            hidden = ((share[:, None] * w0[:, 0] + b0).clamp(min=0) @ w1.T + b1).clamp(min=0)
            values = values.index_put((torch.tensor(i),), hidden @ w2[h] + b2[h])
        return values
