"""PaPE-RI: one parabola of the distance per token and head."""

import math

import torch.nn.functional as F
from torch import Tensor

from tests.encodings.references.base import Reference


class PaPERI(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        alpha = -F.softplus(x @ self.weights["encoding.wa"][h])
        square = (self.dr * self.dr).sum(-1)
        return alpha[:, None] * self.weights["encoding.scale"][h] ** 2 * square / math.sqrt(self.width)
