"""Polynomial: PaPE with higher powers than squares (appendix C of Ohrstrom 2026), one power after the other or mixed.

elementwise     sum_n <a_n, (Wp dr)^n>, n = 1 .. degree: m polynomials of one variable each, along learned directions
multivariate    every monomial of dr below the highest even degree, and above it, has a coefficient of its own, c_i =
                Wc x_i; the highest even degree is <a, (Wp dr)^n>

The coefficients are the query's. Those of even powers are -softplus(W x), as PaPE's, so that attention falls where |dr|
is large; others are W x. Degree 2 is PaPE. Summed over m, either is a polynomial of the P axes, with
C(P + degree, P) - 1 coefficients, and this is what is computed.
"""

import itertools
import math
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.initial_radius import MEAN_SOFTPLUS, steepest
from ndformer.encodings.pape import Centred, centre
from ndformer.encodings.projection import project
from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.bias.polynomials import Exponents, PolynomialBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.coverage import AUTO, Coverage, Span, radii
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Range, Width
from ndformer.framework.system.devices import Constant
from ndformer.framework.tokens import Where

Degree = Annotated[int, Range(1, 12)]  # more have no digits left in float32


@ENCODINGS.register_module()
class Polynomial(PositionEncoding):
    """A polynomial of the relative position, whose coefficients the query decides.

    With an odd degree, the highest power grows without end to one side of every direction: bounded only as far as the
    positions are. Powers grow fast where |dr| is above 1, so give `position_scale` about 1 over the reach you want.
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "centered"

    def __init__(
        self,
        *args: Any,
        degree: Degree = 4,
        m: Width = 50,
        form: Literal["elementwise", "multivariate"] = "elementwise",
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        if degree < 1 or m < 1:
            raise ValueError(f"degree and m are at least 1, got degree={degree}, m={m}")
        if form not in ("elementwise", "multivariate"):
            raise ValueError(f"form is 'elementwise' or 'multivariate', got {form!r}")
        self.degree, self.m, self.form = degree, m, form

    def covers(self, span: Span) -> list[Coverage]:
        """By the radius at which even powers, whose sign is known, take 1/2 of a logit, as a Gaussian's at its own."""
        if self.degree < 2:
            return []
        half, sees, flat = (self.falls_to(fall) for fall in (1 / 2, 9 / 2, 1 / 8))
        weight = lambda d: math.exp(-self.fall(half * d))
        return [radii([half], span, sees / half, half / flat, AUTO, weight)]

    def fall(self, distance: float) -> float:
        """What even powers take of a logit at the start, so far along an axis: means over Wp's and Wa x' values."""
        powers = range(2, self.degree + 1, 2) if self.form == "elementwise" else [self.degree // 2 * 2]
        reach = distance * self.position_dims**-0.5  # of one component of Wp, evenly from -1 to 1 times
        share = self.m * MEAN_SOFTPLUS * self.head_dim**-0.5
        return share * sum(reach**n / (n + 1) for n in powers)

    def falls_to(self, fall: float) -> float:
        """The distance at which it is so much."""
        low, high = 0.0, 1e6
        for _ in range(100):
            low, high = (low, (low + high) / 2) if self.fall((low + high) / 2) > fall else ((low + high) / 2, high)
        return high

    def tables(self, positions: Tensor, where: Where) -> Centred:
        if self.degree > 2:
            return Centred(positions, None)
        falls = self.m * MEAN_SOFTPLUS / (3 * self.position_dims) * self.head_dim**-0.5
        return centre(positions, where, self.factors, falls, steepest(falls, self.m, self.head_dim))

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return (ElementwiseLayer if self.form == "elementwise" else MultivariateLayer)(self)


class _PolynomialLayer(LayerEncoding):
    def __init__(self, config: Polynomial) -> None:
        super().__init__()
        self.heads, self.dim, self.head_dim = config.heads, config.dim, config.head_dim
        self.dims, self.m, self.degree = config.position_dims, config.m, config.degree
        self.monomials = [monomials(self.dims, n) for n in range(config.degree + 1)]
        self.ways = [[_ways(exponents) for exponents in which] for which in self.monomials]
        self.numbers = [(Constant(which), Constant(ways)) for which, ways in zip(self.monomials, self.ways)]
        bound = self.dims**-0.5
        self.wp = nn.Parameter(torch.empty(self.heads, self.m, self.dims).uniform_(-bound, bound))

    def _weights(self, count: int) -> nn.Parameter:
        bound = self.dim**-0.5
        return nn.Parameter(torch.empty(self.heads, count, self.dim).uniform_(-bound, bound))

    def terms(self, x: Tensor, like: Tensor) -> dict[Exponents, Tensor]:
        """The coefficients (B, H, N) of each monomial of dr."""
        raise NotImplementedError

    def power(self, x: Tensor, weight: Tensor, n: int, like: Tensor) -> dict[Exponents, Tensor]:
        """<a, (Wp dr)^n> as monomials of dr."""
        wp, which = self.wp.to(x.dtype), self.monomials[n]
        exponents, ways = (numbers(x) for numbers in self.numbers[n])  # (T, P), (T,)
        products = (wp[:, :, None] ** exponents).prod(-1) * self.head_dim**-0.5  # (H, m, T)
        products = products * ways
        if n % 2:  # of the folded weight, Wp' W: m is gone
            return self.free(x, products.transpose(1, 2) @ weight.to(x.dtype), n, like)
        falls = -F.softplus(project(x, weight, like))  # (H, m, B, N)
        sums = (products.transpose(1, 2) @ falls.flatten(2)).unflatten(-1, falls.shape[2:])
        return dict(zip(which, sums.permute(1, 2, 0, 3).contiguous().unbind(0)))

    def free(self, x: Tensor, weight: Tensor, n: int, like: Tensor) -> dict[Exponents, Tensor]:
        """W x for each monomial of degree n."""
        values = project(x, weight, like).permute(1, 2, 0, 3).contiguous()
        return dict(zip(self.monomials[n], values.unbind(0)))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Centred) -> Bias:
        terms = self.terms(x.to(torch.promote_types(x.dtype, torch.float32)), q)
        if self.degree > 2:
            return PolynomialBias(terms, state.positions)
        c = [terms[n] for n in self.monomials[1]]
        M = [terms[n] / ways for n, ways in zip(self.monomials[2], self.ways[2])] if self.degree == 2 else None
        return QuadraticBias(M, c, state.positions, state.near)


class ElementwiseLayer(_PolynomialLayer):
    def __init__(self, config: Polynomial) -> None:
        super().__init__(config)
        self.powers = nn.ParameterList(self._weights(self.m) for _ in range(self.degree))  # of the first power first

    def terms(self, x: Tensor, like: Tensor) -> dict[Exponents, Tensor]:
        terms: dict[Exponents, Tensor] = {}
        for n, weight in enumerate(self.powers, 1):
            terms |= self.power(x, weight, n, like)
        return terms


class MultivariateLayer(_PolynomialLayer):
    def __init__(self, config: Polynomial) -> None:
        super().__init__(config)
        self.even = self.degree // 2 * 2  # the highest
        self.free_degrees = [n for n in range(1, self.degree + 1) if n != self.even]
        if self.even:
            self.wa = self._weights(self.m)
        else:
            del self.wp
        self.wc = nn.ParameterList(self._weights(len(self.monomials[n])) for n in self.free_degrees)

    def terms(self, x: Tensor, like: Tensor) -> dict[Exponents, Tensor]:
        terms: dict[Exponents, Tensor] = {}
        for n, weight in zip(self.free_degrees, self.wc):
            terms |= self.free(x, weight * self.head_dim**-0.5, n, like)
        return terms | self.power(x, self.wa, self.even, like) if self.even else terms


def monomials(dims: int, degree: int) -> list[Exponents]:
    """All of one degree, dr_1^degree first: of degree 2 the upper entries of a matrix, row by row."""
    axes = itertools.combinations_with_replacement(range(dims), degree)
    return [tuple(chosen.count(p) for p in range(dims)) for chosen in axes]


def _ways(exponents: Exponents) -> int:
    """The multinomial coefficient: how often a monomial comes in a power of a sum."""
    return math.factorial(sum(exponents)) // math.prod(math.factorial(n) for n in exponents)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(Polynomial)
