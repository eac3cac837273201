"""PoPE: the sum of its cosines, channel by channel."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class PoPE(Reference):
    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        share, total = self.cfg.get("channels", 1), torch.zeros(len(q), len(k), dtype=q.dtype)
        rotated = self.width if share == 1 else 2 * int(self.width * share / 2)
        n, order = rotated // self.dims, self.cfg.get("axes") or range(self.dims)
        for c in range(self.width):
            p, i = divmod(c, n)
            frequency = self.cfg.get("base", 10000) ** (-i / n) if p < self.dims else 0.0
            p = order[min(p, self.dims - 1)]
            angle = self.dr[..., p] * (self.turns(frequency, p) if frequency else 0.0)
            delta = self.weights["encoding.delta"][h, c].clamp(-2 * math.pi, 0)
            lengths = torch.outer(torch.log(1 + q[:, c].exp()), torch.log(1 + k[:, c].exp()))
            total = total + lengths * torch.cos(angle + delta)
        return total
