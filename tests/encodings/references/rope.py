"""AxialRoPE and RoPEMixed: their frequencies."""

import torch
from torch import Tensor

from tests.encodings.references.rotary import ComplexRotation


class AxialRoPE(ComplexRotation):
    def frequencies(self, h: int) -> list[Tensor]:
        n = self.width // (2 * self.dims)
        return [100 ** (-i / n) * e for e in torch.eye(self.dims).double() for i in range(n)]


class RoPEMixed(ComplexRotation):
    def frequencies(self, h: int) -> list[Tensor]:
        return list(self.weights["encoding.frequencies"][h])


CASES = {"AxialRoPE": dict(type="AxialRoPE"), "RoPEMixed": dict(type="RoPEMixed")}
