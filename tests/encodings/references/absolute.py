"""NoPE and Sincos."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


def sincos(r: Tensor, dim: int) -> Tensor:
    P = r.shape[1]
    channels = []
    for p in range(P):
        width = dim // P + (dim % P if p == P - 1 else 0)
        for c in range(width):
            angle = r[:, p] / 10000 ** (2 * (c // 2) / width)
            channels.append(angle.sin() if c % 2 == 0 else angle.cos())
    return torch.stack(channels, dim=1)


class Sincos(Reference):
    def embed(self, x: Tensor) -> Tensor:
        return x + sincos(self.r, self.dim) * self.placed[:, None]


CASES = {"NoPE": dict(type="NoPE"), "Sincos": dict(type="Sincos")}
REFERENCES = {"NoPE": Reference, "Sincos": Sincos}
