"""Of a pair of channels read as complex numbers, Re(q_i conj(k_j) exp(-i w'(r_j - r_i)))."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class _Turned(Reference):
    def frequencies(self, h: int) -> list[Tensor]:
        raise NotImplementedError

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        frequencies = self.frequencies(h)
        total = torch.zeros(len(q), len(k), dtype=q.dtype)
        for f, w in enumerate(frequencies):
            (q0, q1), (k0, k1) = q[:, 2 * f : 2 * f + 2].T, k[:, 2 * f : 2 * f + 2].T
            real = torch.outer(q0, k0) + torch.outer(q1, k1)
            imaginary = torch.outer(q1, k0) - torch.outer(q0, k1)
            total = total + real * (self.dr @ w).cos() + imaginary * (self.dr @ w).sin()
        turned = 2 * len(frequencies)
        return total + q[:, turned:] @ k[:, turned:].T


class AxialRoPE(_Turned):
    def frequencies(self, h: int) -> list[Tensor]:
        n = self.width // (2 * self.dims)
        return [100 ** (-i / n) * e for e in torch.eye(self.dims).double() for i in range(n)]


class RoPEMixed(_Turned):
    def frequencies(self, h: int) -> list[Tensor]:
        return list(self.weights["encoding.frequencies"][h])


CASES = {"AxialRoPE": dict(type="AxialRoPE"), "RoPEMixed": dict(type="RoPEMixed")}
REFERENCES = {"AxialRoPE": AxialRoPE, "RoPEMixed": RoPEMixed}
