"""GRAPE: q_i' exp(w'(r_j - r_i) L) k_j with the exponential of a whole matrix, L = a b' - b a'."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class GRAPE(Reference):
    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        a, b = self.weights["encoding.a"][h], self.weights["encoding.b"][h]
        L = torch.outer(a, b) - torch.outer(b, a)
        G = torch.linalg.matrix_exp((self.dr @ self.weights["encoding.frequencies"][h, 0])[..., None, None] * L)
        return torch.einsum("ic,ijcd,jd->ij", q, G, k)
