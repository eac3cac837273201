"""LookHere: ALiBi inside a field of view, minus infinity outside."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class LookHere(Reference):
    """The directions of the heads are taken from the encoding; test_lookhere.py tests them."""

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        encoding = self.model.encoding
        distance = (self.dr**2).sum(-1).sqrt()
        layer_slope = 1.5 - self.index / (self.depth - 1)
        along = self.dr @ torch.tensor(encoding.directions[h], dtype=x.dtype)
        inside = along >= (encoding.cosines[h] - 1e-5) * distance
        return torch.where(inside, -layer_slope * encoding.slopes[h] * distance, -math.inf)
