"""LearnableFourier: algorithm 1 of the paper."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class LearnableFourier(Reference):
    """Algorithm 1 of the paper, a group and a wave at a time."""

    def embed(self, x: Tensor) -> Tensor:
        weights = {name: self.weights[f"shared.{name}"] for name in ("frequencies", "first.weight", "first.bias")}
        weights |= {name: self.weights[f"shared.{name}"] for name in ("last.weight", "last.bias")}
        code = []
        for r in self.r.split(self.dims // self.cfg.get("groups", 1), dim=1):
            angles = [r @ wave for wave in weights["frequencies"]]
            waves = torch.stack([*[y.cos() for y in angles], *[y.sin() for y in angles]], dim=1)
            h = waves / math.sqrt(waves.shape[1]) @ weights["first.weight"].T + weights["first.bias"]
            h = h * (1 + torch.erf(h / math.sqrt(2))) / 2
            code.append(h @ weights["last.weight"].T + weights["last.bias"])
        return x + torch.cat(code, dim=1) * self.placed[:, None]


CASES = {"LearnableFourier": dict(type="LearnableFourier", gamma=3)}
