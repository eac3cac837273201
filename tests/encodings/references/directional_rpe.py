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
        places = [tuple(r) for r in self.r.tolist()]
        total = torch.zeros(len(places), len(places), dtype=x.dtype)
        for i, here in enumerate(places):
            for j, there in enumerate(places):
                distance = sum(abs(a - b) for a, b in zip(here, there))
                if repo and self.cfg.get("diagonals", True) and there[0] != here[0] and there[1] > here[1]:
                    distance *= 2**0.25
                total[i, j] = -(left if there <= here else right) * distance  # tuples compare in raster order
        return total


CASES = {
    "DirectionalRPE": dict(type="DirectionalRPE"),
    "DirectionalRPE-repo": dict(type="DirectionalRPE", preset="repo"),
}
