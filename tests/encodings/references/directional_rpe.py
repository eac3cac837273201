"""ViTARC's 2D-RPE, equation 12: over the tokens in raster order, pair by pair."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class DirectionalRPE(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        repo = self.cfg.get("preset") == "repo"
        if repo:
            exponents = (
                [0, 1, 0] if self.heads == 3 else range(self.heads)
            )  # three: of two, then every other one of four
        else:
            exponents = [8 * i / self.heads for i in range(self.heads)]
        left, right = 2.0 ** -(1 + exponents[h]), 2.0 ** -(0.5 + exponents[h])
        total = torch.zeros(len(x), len(x), dtype=x.dtype)
        for i, row in enumerate(self.dr.tolist()):
            for j, step in enumerate(row):
                distance = sum(map(abs, step))
                if repo and self.cfg.get("diagonals", True) and step[0] != 0 and step[1] > 0:
                    distance *= 2**0.25
                before = step <= [0.0] * self.dims  # lists compare in raster order
                total[i, j] = -(left if before else right) * distance
        return total


CASES = {
    "DirectionalRPE": dict(type="DirectionalRPE"),
    "DirectionalRPE-repo": dict(type="DirectionalRPE", preset="repo"),
}
