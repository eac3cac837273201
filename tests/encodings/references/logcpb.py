"""Swin V2: 16 sigmoid(W2 relu(W1 u + b1)), u = sign(s) log2(1 + |s|) / log2(8), s = 8 (query - key) / (n - 1)."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.encodings.references.base import Reference


class LogCPB(Reference):
    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        if not self.cfg.get("cosine"):
            return q @ k.T
        factor = self.weights["encoding.scale"][h].clamp(max=math.log(100)).exp()
        return F.normalize(q, dim=1) @ F.normalize(k, dim=1).T * factor * self.width**0.5

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        assert self.grid is not None
        w1, b1, w2 = (self.weights[f"encoding.network.{name}"] for name in ("0.weight", "0.bias", "2.weight"))
        cells = list(itertools.product(*map(range, self.grid)))
        first = len(x) - len(cells)
        values = torch.zeros(len(x), len(x), dtype=x.dtype)
        for (i, here), (j, there) in itertools.product(enumerate(cells, first), repeat=2):
            u = []
            for a, b, n in zip(here, there, self.grid):
                s = 8 * (a - b) / max(1, n - 1)
                u.append(math.copysign(math.log2(1 + abs(s)) / math.log2(8), s))
            hidden = (w1 @ torch.tensor(u, dtype=x.dtype) + b1).clamp(min=0)
            values = values.index_put((torch.tensor(i), torch.tensor(j)), 16 * torch.sigmoid(w2[h] @ hidden))
        return values


CASES = {"LogCPB": dict(type="LogCPB", hidden=8), "LogCPB cosine": dict(type="LogCPB", hidden=8, cosine=True)}
