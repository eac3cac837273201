"""ALiBi and LookHere."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


def published_slopes(heads: int) -> list[float]:
    return {
        3: [2**-4, 2**-8, 2**-2],
        8: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8],
        12: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    }[heads]


class ALiBi(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return -published_slopes(self.heads)[h] * (self.dr**2).sum(-1).sqrt()


class LookHere(Reference):
    """Where the heads look is tested by itself."""

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        encoding = self.model.encoding
        distance = (self.dr**2).sum(-1).sqrt()
        layer_slope = 1.5 - self.index / (self.depth - 1)
        along = self.dr @ torch.tensor(encoding.directions[h], dtype=x.dtype)
        inside = along >= (encoding.cosines[h] - 1e-5) * distance
        return torch.where(inside, -layer_slope * encoding.slopes[h] * distance, -math.inf)


CASES = {"ALiBi": dict(type="ALiBi"), "LookHere": dict(type="LookHere")}
REFERENCES = {"ALiBi": ALiBi, "LookHere": LookHere}
