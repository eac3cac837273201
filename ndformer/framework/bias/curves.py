"""A bias computed from the distance by a curve with parameters per head."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, FormulaBias, Select, norm
from ndformer.framework.tokens import Rows

Curve = Callable[..., Tensor]  # (distance, parameters of the head ...) -> bias


def power(d: Tensor, a: Tensor, p: Tensor) -> Tensor:
    """Return -a d^p; its derivative by p at d = 0 (0 log 0) is 0."""
    away = d > 0
    return torch.where(away, -a * torch.where(away, d, 1.0) ** p, 0.0)


def logarithm(d: Tensor, a: Tensor, p: Tensor) -> Tensor:
    return -p * torch.log1p(a * d)


def gaussian(d: Tensor, width: Tensor) -> Tensor:
    return -0.5 * (d / width) ** 2


class CurveBias(FormulaBias):
    """A bias curve(|r_j - r_i|, parameters of the head)."""

    term = "distance"

    def __init__(self, curve: Curve, numbers: Sequence[Tensor], positions: Tensor) -> None:
        """`numbers`: parameters of the curve, each (H,)."""
        super().__init__(positions)
        self.curve, self.numbers = curve, list(numbers)

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        return self.curve(norm(dr), *map(select, self.numbers))

    def cut(self, rows: Rows) -> Bias:
        return CurveBias(self.curve, self.numbers, self.cut_positions(rows))
