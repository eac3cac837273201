"""Polynomial, equation 35 along Wp, and the sum of monomials after it: term by term, nothing multiplied out."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.encodings.references.base import Reference


class Polynomial(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        degree, own = self.cfg.get("degree", 4), self.weights
        total = torch.zeros_like(self.dr[..., 0])
        even = degree - degree % 2
        for n in range(1, degree + 1):
            if self.cfg.get("form") != "multivariate":
                total = total + self.power(n, h, x, own[f"encoding.powers.{n - 1}"][h])
            elif n == even:
                total = total + self.power(n, h, x, own["encoding.wa"][h])
            else:
                c = x @ own[f"encoding.wc.{n - 1 - (n > even > 0)}"][h].T
                axes = itertools.combinations_with_replacement(range(self.dims), n)
                for t, chosen in enumerate(axes):
                    total = total + c[:, t, None] * math.prod((self.dr[..., p] for p in chosen), start=1.0)
        return total / math.sqrt(self.width)

    def power(self, n: int, h: int, x: Tensor, w: Tensor) -> Tensor:
        """<a_n, (Wp dr)^n>"""
        a = x @ w.T
        a = a if n % 2 else -F.softplus(a)
        return torch.einsum("im,ijm->ij", a, (self.dr @ self.weights["encoding.wp"][h].T) ** n)


CASES = {
    "Polynomial": dict(type="Polynomial", m=8, position_scale=0.1),
    "Polynomial-2": dict(type="Polynomial", degree=2, m=8),
    "Polynomial-3": dict(type="Polynomial", degree=3, m=5, position_scale=0.1),
    "Polynomial-mixed": dict(type="Polynomial", degree=4, m=8, form="multivariate", position_scale=0.1),
    "Polynomial-mixed-3": dict(type="Polynomial", degree=3, m=4, form="multivariate", position_scale=0.1),
    "Polynomial-mixed-2": dict(type="Polynomial", degree=2, m=8, form="multivariate"),
    "Polynomial-mixed-1": dict(type="Polynomial", degree=1, form="multivariate", position_scale=0.1),
}
