"""AxialRoPE and RoPEMixed: their frequencies."""

import torch
from torch import Tensor

from tests.encodings.references.rotary import ComplexRotation


class PaperRepository(ComplexRotation):
    """Pairs (f, f + pairs) with preset='pape_repo'."""

    @property
    def repo(self) -> bool:
        return self.cfg.get("preset") == "pape_repo"

    @property
    def share(self) -> float:
        return self.cfg.get("channels", 1)

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        if self.repo:
            pairs = len(self.frequencies(h))
            order = [c for f in range(pairs) for c in (f, f + pairs)] + list(range(2 * pairs, self.width))
            q, k = q[:, order], k[:, order]
        return super().content(h, q, k)


class AxialRoPE(PaperRepository):
    def frequencies(self, h: int) -> list[Tensor]:
        n, axes = int(self.width * self.share) // 2 // self.dims, torch.eye(self.dims).double()
        order = self.cfg.get("axes") or ([1, 0] if self.repo and self.dims == 2 else range(self.dims))
        return [(10000 if self.repo else 100) ** (-i / n) * axes[p] for p in order for i in range(n)]


class RoPEMixed(PaperRepository):
    def frequencies(self, h: int) -> list[Tensor]:
        learned = self.weights["encoding.frequencies"][h]
        return list(1 / learned if self.repo else learned)


CASES = {"AxialRoPE": dict(type="AxialRoPE"), "RoPEMixed": dict(type="RoPEMixed")}
