"""Biases that are a curve of the distance, each head's with numbers of its own."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.bias.base import Bias, PositionBias, norm
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Rows

Curve = Callable[..., Tensor]  # (distance, a number of the head, another ...) -> bias


def power(d: Tensor, a: Tensor, p: Tensor) -> Tensor:
    """-a d^p; its slope in p at 0, 0 log 0, is 0."""
    away = d > 0
    return torch.where(away, -a * torch.where(away, d, 1.0) ** p, 0.0)


def logarithm(d: Tensor, a: Tensor, p: Tensor) -> Tensor:
    return -p * torch.log1p(a * d)


def gaussian(d: Tensor, width: Tensor) -> Tensor:
    return -0.5 * (d / width) ** 2


class CurveBias(PositionBias):
    """curve(|r_j - r_i|, the head's numbers)."""

    term = "distance"

    def __init__(self, curve: Curve, numbers: Sequence[Tensor], positions: Tensor) -> None:
        """`numbers`: each (H,)."""
        super().__init__(positions)
        self.curve, self.numbers = curve, list(numbers)

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = norm([self.difference(p, b, i, j) for p in range(len(self.axes))])
        return self.curve(d, *(number[h] for number in self.numbers))

    def rows(self, lo: int, hi: int) -> Tensor:
        d = norm(self.differences(lo, hi))[:, None]  # (B or 1, 1, n, N)
        return self.curve(d, *(number[:, None, None] for number in self.numbers))

    def cut(self, rows: Rows) -> Bias:
        return CurveBias(self.curve, self.numbers, self.cut_positions(rows))


class NetworkBias(PositionBias):
    """network(log(1 + c |r_j - r_i|) / whole_i), a small network of one number with an output for each head."""

    term = "distance"

    def __init__(self, weights: Sequence[Tensor], c: Tensor, whole: Tensor, positions: Tensor) -> None:
        """`weights`: a matrix and a vector for each linear layer, with rectifiers between; `whole`: (B or 1, N, 1)."""
        super().__init__(positions)
        self.weights, self.c, self.whole = list(weights), c, whole

    def rows(self, lo: int, hi: int) -> Tensor:
        share = torch.log1p(self.c * norm(self.differences(lo, hi))) / self.whole[:, lo:hi]  # (B or 1, n, N)
        with without_autocast(share):
            y = F.linear(share[..., None], *self.weights[:2])
            for at in range(2, len(self.weights), 2):
                y = F.linear(y.relu(), *self.weights[at : at + 2])
            return y.permute(0, 3, 1, 2)

    def cut(self, rows: Rows) -> Bias:
        whole = rows.gather(self.whole.flatten(0, 1)) + (~rows.valid[..., None]).to(self.whole.dtype)
        return NetworkBias(self.weights, self.c, whole, self.cut_positions(rows))
