"""PRoPE: GTA with whole projections in place of poses, on half of the channels, and RoPE of base 100."""

import torch
from torch import Tensor

from tests.encodings.references.gta import GTA


class PRoPE(GTA):
    @property
    def share(self) -> float:
        return 0.5

    def camera(self, n: int) -> Tensor:
        return torch.eye(4).double() if self.cameras is None else self.cameras[n].clone()

    def angles(self) -> list[Tensor]:
        n = self.pairs_per_axis
        return [self.r[:, p] * self.turns(100 ** (-f / n), p) for p in self.order for f in range(n)]
