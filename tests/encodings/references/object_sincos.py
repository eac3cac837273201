"""ObjectSincos: OPE of ViTARC, equation 13."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


def wave(n: Tensor, width: int, turns: Callable[[float], float] = lambda w: w) -> Tensor:
    """(n,) -> (n, width): sine and cosine in turn."""
    angles = [n * turns(10000 ** (-2 * i / width)) for i in range(math.ceil(width / 2))]
    return torch.stack([f for a in angles for f in (a.sin(), a.cos())][:width], dim=1)


class ObjectSincos(Reference):
    """Without objects: all are 0."""

    def embed(self, x: Tensor) -> Tensor:
        half, P = self.dim // 2, self.dims
        each = (self.dim - half) // P
        widths = [each] * (P - 1) + [self.dim - half - each * (P - 1)]
        parts = [wave(torch.zeros_like(self.r[:, 0]), half)]
        parts += [wave(self.r[:, p], width, partial(self.turns, p=p)) for p, width in enumerate(widths)]
        return x + torch.cat(parts, dim=1) * self.placed[:, None]
