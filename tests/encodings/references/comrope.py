"""ComRoPE: generators that commute."""

import torch
from torch import Tensor

from tests.encodings.references.skew_matrices import Generated


class ComRoPE(Generated):
    def generators(self, h: int, block: int) -> list[Tensor]:
        B = self.weights["encoding.b"][h, block]
        if self.cfg.get("kind") == "AP":
            return [(B - B.T) * (block % self.dims == p) for p in range(self.dims)]
        return [theta * (B - B.T) for theta in self.weights["encoding.theta"][h, block]]

    def places(self) -> Tensor:
        """(r - lowest + 1/2) / extent; tokens without a place stand at 1/2, in the middle."""
        if not self.placed.any():
            return self.r
        low, high = self.r[self.placed].min(0).values, self.r[self.placed].max(0).values
        return torch.where(self.placed[:, None], (self.r - low + 0.5) / (high - low + 1), 0.5)


CASES = {"ComRoPE": dict(type="ComRoPE"), "ComRoPE AP": dict(type="ComRoPE", kind="AP", block=4)}
