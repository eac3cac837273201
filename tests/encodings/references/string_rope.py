"""STRING: RoPE in the basis that the Cayley transform of a skew matrix gives."""

import torch
from torch import Tensor

from tests.encodings.references.rotary import RotaryND
from tests.encodings.references.skew_matrices import skew


class STRING(RotaryND):
    """q_i' P' RoPE(r_j - r_i) P k_j; (I + S) P' = I - S for P transposed."""

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        S, one = skew(self.weights["encoding.skew"][h], self.width), torch.eye(self.width, dtype=q.dtype)
        P = (one - S) @ torch.linalg.inv(one + S)
        return super().content(h, q @ P.T, k @ P.T)

    def frequencies(self, h: int) -> list[Tensor]:
        return list(self.weights["encoding.frequencies"][h])
