"""LieRE: generators of any skew matrices."""

import torch
from torch import Tensor

from tests.encodings.references.skew_matrices import Generated, skew


class LieRE(Generated):
    def generators(self, h: int, block: int) -> list[Tensor]:
        b = self.cfg.get("block", 8)
        entries = self.weights["encoding.frequencies" if b == 2 else "encoding.entries"][h, block]  # (P, b (b - 1) / 2)
        return [skew(own.view(-1), b) for own in entries]

    def places(self) -> Tensor:
        """(r - lowest) / (highest - lowest)."""
        if self.cfg.get("normalize", "ends") is None or not self.placed.any():
            return self.r
        low, high = self.r[self.placed].min(0).values, self.r[self.placed].max(0).values
        r = (self.r - low) / torch.where(high > low, high - low, 1.0)
        return torch.where(self.placed[:, None], r, 0.0)


CASES = {
    "LieRE": dict(type="LieRE"),
    "LieRE 2": dict(type="LieRE", block=2),
    "LieRE free": dict(type="LieRE", block=4, normalize=None, position_scale=0.1),
}
