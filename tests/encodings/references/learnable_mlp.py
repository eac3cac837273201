"""A small network of the place, added to what q and k are made from (3DETR, UniTR)."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class LearnableMLP(Reference):
    def asked(self, x: Tensor) -> Tensor:
        w = {name.removeprefix("encoding.mlp."): value for name, value in self.weights.items()}
        h = self.r @ w["0.weight"].T + w["0.bias"]
        spread = ((h - h.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True)
        h = (h - h.mean(1, keepdim=True)) / (spread + 1e-5).sqrt() * w["1.weight"] + w["1.bias"]
        code = torch.clamp(h, min=0) @ w["3.weight"].T + w["3.bias"]
        return x + code * self.placed[:, None]
