"""Sincos and LearnableSincos, channel by channel."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


def sincos(r: Tensor, dim: int, turns: Callable[[float, int], float] = lambda w, p: w) -> Tensor:
    P = r.shape[1]
    channels = []
    for p in range(P):
        width = dim // P + (dim % P if p == P - 1 else 0)
        for c in range(width):
            angle = r[:, p] * turns(10000 ** (-2 * (c // 2) / width), p)
            channels.append(angle.sin() if c % 2 == 0 else angle.cos())
    return torch.stack(channels, dim=1)


class Sincos(Reference):
    def embed(self, x: Tensor) -> Tensor:
        return x + sincos(self.r, self.dim, self.turns) * self.placed[:, None]


class LearnableSincos(Reference):
    """Equation 6: angles y = W r, then sines and cosines in turn. An axis of odd width ends with a sine."""

    def embed(self, x: Tensor) -> Tensor:
        offsets = iter(self.weights["shared.offsets"])
        channels = []
        for p in range(self.dims):
            width = self.dim // self.dims + (self.dim % self.dims if p == self.dims - 1 else 0)
            for i in range(math.ceil(width / 2)):
                start = torch.eye(self.dims).double()[p] / 10000 ** (2 * i / width)
                y = self.r @ (start + next(offsets))
                channels += [y.sin(), y.cos()] if 2 * i + 1 < width else [y.sin()]
        return x + torch.stack(channels, dim=1) * self.placed[:, None]


CASES = {"Sincos": dict(type="Sincos"), "LearnableSincos": dict(type="LearnableSincos")}
