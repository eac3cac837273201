"""KERPLE: -p log(1 + a d), -a d^p; BAM: -(d / a)^p; a Gaussian: -d^2 / 2 a^2."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class Radial(Reference):
    @property
    def d(self) -> Tensor:
        rows = [torch.stack([length(step) for step in row]) for row in self.dr]
        return torch.stack(rows)


class RadialBias(Radial):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        curve, d = self.cfg.get("curve", "log"), self.d
        a = reflected(self.weights["encoding.a"][h], 0.01)
        p = reflected(
            self.weights.get("encoding.p", self.weights["encoding.a"])[h], 0.01, 2 if curve == "power" else None
        )
        if curve == "log":
            return -p * torch.log(1 + a * d)
        if curve == "gaussian":
            return -(d**2) / (2 * a**2)
        if curve == "linear":
            return -a * d
        actual = torch.zeros_like(d)
        for i, j in (d > 0).nonzero().tolist():
            value = -a * d[i, j] ** p if curve == "power" else -((d[i, j] / a) ** p)
            actual = actual.index_put((torch.tensor(i), torch.tensor(j)), value)
        return actual


def reflected(number: Tensor, low: float, high: float | None = None) -> Tensor:
    """Mirrored at its bounds."""
    number = number if number > low else 2 * low - number
    return 2 * high - number if high is not None and number > high else number


def length(step: Tensor) -> Tensor:
    return (step * step).sum() ** 0.5 if step.any() else step.sum()


CASES = {
    "RadialBias": dict(type="RadialBias"),
    "RadialBias power": dict(type="RadialBias", curve="power"),
    "RadialBias bam": dict(type="RadialBias", curve="bam"),
    "RadialBias gaussian": dict(type="RadialBias", curve="gaussian"),
}
