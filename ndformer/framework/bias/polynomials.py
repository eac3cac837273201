"""Polynomial biases of the position difference, of any degree (PaPE's appendix C)."""

import functools
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, FormulaBias, Select, cut_heads
from ndformer.framework.tokens import Rows

Exponents = tuple[int, ...]  # one per axis: (2, 1) is dy^2 dx


class PolynomialBias(FormulaBias):
    """A sum of terms c dr_1^n_1 ... dr_P^n_P, some n > 0, with coefficients c (B, H, N) computed from the query."""

    def __init__(self, terms: Mapping[Exponents, Tensor], positions: Tensor) -> None:
        super().__init__(positions, next(iter(terms.values())).dtype)
        self.exponents, self.coefficients = list(terms), list(terms.values())

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        powers = self._powers(dr)
        values = (select(c) * _product(powers, n) for n, c in self._terms)
        return sum(values, next(values))

    def _powers(self, dr: Sequence[Tensor]) -> list[list[Tensor]]:
        """Return per axis the powers dr^1, dr^2 ... up to the degree in use."""
        degrees = [max(n[p] for n in self.exponents) for p in range(len(dr))]
        powers = []
        for d, degree in zip(dr, degrees):
            powers.append([d])
            while len(powers[-1]) < degree:
                powers[-1].append(powers[-1][-1] * d)
        return powers

    def cut(self, rows: Rows) -> Bias:
        terms = {n: cut_heads(c, rows) for n, c in self._terms}
        return PolynomialBias(terms, self.cut_positions(rows))

    @property
    def _terms(self) -> list[tuple[Exponents, Tensor]]:
        return list(zip(self.exponents, self.coefficients))

    def parts(self) -> dict[str, Bias]:
        """Return the terms of even degree (`distance`) and of odd degree (`direction`)."""
        positions = torch.stack(self.axes, dim=-1)
        kinds = {"distance": 0, "direction": 1}
        split = {name: {n: c for n, c in self._terms if sum(n) % 2 == odd} for name, odd in kinds.items()}
        return {name: PolynomialBias(terms, positions) for name, terms in split.items() if terms}


def _product(powers: Sequence[Sequence[Tensor]], exponents: Exponents) -> Tensor:
    return functools.reduce(torch.mul, (powers[p][n - 1] for p, n in enumerate(exponents) if n))
