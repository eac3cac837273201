"""Polynomial: PaPE with powers above the second (appendix C of Ohrstrom 2026), elementwise or multivariate.

elementwise     sum_n <a_n, (Wp dr)^n>, n = 1 .. degree: m polynomials of one variable each, along learned directions
multivariate    <a, (Wp dr)^n> for n the highest even degree; every monomial of dr of another degree has a coefficient
                c_i = Wc x_i

The query token gives the coefficients. Those of even powers are -softplus(W x), as in PaPE, so that attention decreases
where |dr| is large; others are W x. Degree 2 is PaPE. The sum over m is a polynomial of the P axes with
C(P + degree, P) - 1 coefficients, which are what is computed.
"""

import itertools
import math
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.encodings.centered_positions import CenteredPositions, centered_positions
from ndformer.encodings.initial_radius import MEAN_SOFTPLUS, weight_sensitivity
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

Degree = Annotated[int, Range(1, 12)]  # float32 has not the digits for higher powers


@ENCODINGS.register_module()
class Polynomial(PositionEncoding):
    """A bias that is a polynomial of dr = r_j - r_i with coefficients computed from the query token (Ohrstrom 2026).

    The formulas of both values of `form` are at the top of this file; `m` is the number of directions Wp per head. With
    an odd degree the highest power is unbounded towards one side of every direction. Powers grow fast where |dr| > 1,
    so set `position_scale` to about 1 over the distance that attention should cover.

    Paper: arXiv:2602.01418, appendix C.
    """

    content_dependent = True
    rotation_invariant = False
    scaled_positions = "centered"
    circular_axes = True

    def __init__(
        self,
        *args: Any,
        degree: Degree = 4,
        m: Width = 50,
        form: Literal["elementwise", "multivariate"] = "elementwise",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.degree, self.m, self.form = degree, m, form

    def covers(self, span: Span) -> list[Coverage]:
        """Report the radius at which even powers, whose sign is known, lower a logit by 1/2, as a Gaussian's radius."""
        if self.degree < 2:
            return []
        radius, cutoff, flat = (self.distance_for(drop) for drop in (1 / 2, 9 / 2, 1 / 8))
        weight = lambda d: math.exp(-self.logit_drop(radius * d))
        return [radii([radius], span, cutoff / radius, radius / flat, AUTO, weight)]

    def logit_drop(self, distance: float) -> float:
        """Return how much even powers lower a logit at a distance along an axis before training, on average."""
        powers = range(2, self.degree + 1, 2) if self.form == "elementwise" else [self.degree // 2 * 2]
        largest = distance * self.position_dims**-0.5  # Wp dr is uniform from minus to plus this
        factor = self.m * MEAN_SOFTPLUS * self.head_dim**-0.5
        return factor * sum(largest**n / (n + 1) for n in powers)

    def distance_for(self, drop: float) -> float:
        """Return the distance at which logit_drop() is `drop`, by bisection."""
        low, high = 0.0, 1e6
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (low, middle) if self.logit_drop(middle) > drop else (middle, high)
        return high

    def tables(self, positions: Tensor, where: Where) -> CenteredPositions:
        if self.degree > 2:
            return CenteredPositions(positions, None)
        curvature = self.m * MEAN_SOFTPLUS / (3 * self.position_dims) * self.head_dim**-0.5
        return centered_positions(
            positions, where, self.factors, curvature, weight_sensitivity(curvature, self.m, self.head_dim)
        )

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return self.on_axes((ElementwiseLayer if self.form == "elementwise" else MultivariateLayer)(self))


class _PolynomialLayer(LayerEncoding):
    """Base class of the layers of both forms: the directions Wp and powers of Wp dr as monomials of dr."""

    def __init__(self, config: Polynomial) -> None:
        super().__init__()
        self.heads, self.dim, self.head_dim = config.heads, config.dim, config.head_dim
        self.dims, self.m, self.degree = config.position_dims, config.m, config.degree
        self.monomials = [monomials(self.dims, n) for n in range(config.degree + 1)]
        self.multinomials = [[_multinomial(exponents) for exponents in degree] for degree in self.monomials]
        self.constants = [(Constant(e), Constant(n)) for e, n in zip(self.monomials, self.multinomials)]
        bound = self.dims**-0.5
        self.wp = nn.Parameter(torch.empty(self.heads, self.m, self.dims).uniform_(-bound, bound))

    def _weights(self, count: int) -> nn.Parameter:
        bound = self.dim**-0.5
        return nn.Parameter(torch.empty(self.heads, count, self.dim).uniform_(-bound, bound))

    def terms(self, x: Tensor, like: Tensor) -> dict[Exponents, Tensor]:
        """Return the coefficient (B, H, N) of each monomial of dr."""
        raise NotImplementedError

    def power_terms(self, x: Tensor, weight: Tensor, n: int, like: Tensor) -> dict[Exponents, Tensor]:
        """Return the coefficients of <a, (Wp dr)^n>, expanded into monomials of dr."""
        wp = self.wp.to(x.dtype)
        exponents, multinomials = (constant(x) for constant in self.constants[n])  # (T, P), (T,)
        products = (wp[:, :, None] ** exponents).prod(-1) * self.head_dim**-0.5  # (H, m, T)
        products = products * multinomials
        if n % 2:  # without an activation, Wp' W can be multiplied first, which sums over m
            return self.linear_terms(x, products.transpose(1, 2) @ weight.to(x.dtype), n, like)
        a = -F.softplus(project(x, weight, like))  # (H, m, B, N)
        sums = (products.transpose(1, 2) @ a.flatten(2)).unflatten(-1, a.shape[2:])
        return dict(zip(self.monomials[n], sums.permute(1, 2, 0, 3).contiguous().unbind(0)))

    def linear_terms(self, x: Tensor, weight: Tensor, n: int, like: Tensor) -> dict[Exponents, Tensor]:
        """Return W x as the coefficients of the monomials of degree n."""
        values = project(x, weight, like).permute(1, 2, 0, 3).contiguous()
        return dict(zip(self.monomials[n], values.unbind(0)))

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: CenteredPositions) -> Bias:
        terms = self.terms(x.to(torch.promote_types(x.dtype, torch.float32)), q)
        if self.degree > 2:
            return PolynomialBias(terms, state.positions)
        c = [terms[n] for n in self.monomials[1]]
        M = None
        if self.degree == 2:
            M = [terms[n] / multinomial for n, multinomial in zip(self.monomials[2], self.multinomials[2])]
        return QuadraticBias(M, c, state.positions, state.local)


class ElementwiseLayer(_PolynomialLayer):
    """One layer of form='elementwise': weights W for each power of Wp dr."""

    def __init__(self, config: Polynomial) -> None:
        super().__init__(config)
        self.powers = nn.ParameterList(self._weights(self.m) for _ in range(self.degree))  # the first power first

    def terms(self, x: Tensor, like: Tensor) -> dict[Exponents, Tensor]:
        terms: dict[Exponents, Tensor] = {}
        for n, weight in enumerate(self.powers, 1):
            terms |= self.power_terms(x, weight, n, like)
        return terms


class MultivariateLayer(_PolynomialLayer):
    """One layer of form='multivariate': weights of the highest even power, and one row for each other monomial."""

    def __init__(self, config: Polynomial) -> None:
        super().__init__(config)
        self.even = self.degree // 2 * 2  # the highest even degree
        self.linear_degrees = [n for n in range(1, self.degree + 1) if n != self.even]
        if self.even:
            self.wa = self._weights(self.m)
        else:
            del self.wp
        self.wc = nn.ParameterList(self._weights(len(self.monomials[n])) for n in self.linear_degrees)

    def terms(self, x: Tensor, like: Tensor) -> dict[Exponents, Tensor]:
        terms: dict[Exponents, Tensor] = {}
        for n, weight in zip(self.linear_degrees, self.wc):
            terms |= self.linear_terms(x, weight * self.head_dim**-0.5, n, like)
        return terms | self.power_terms(x, self.wa, self.even, like) if self.even else terms


def monomials(dims: int, degree: int) -> list[Exponents]:
    """Return the exponents of all monomials of a degree, dr_1^degree first.

    For degree 2 they are the upper entries of a matrix, row by row.
    """
    axes = itertools.combinations_with_replacement(range(dims), degree)
    return [tuple(chosen.count(p) for p in range(dims)) for chosen in axes]


def _multinomial(exponents: Exponents) -> int:
    """Return the multinomial coefficient of a monomial in a power of a sum."""
    return math.factorial(sum(exponents)) // math.prod(math.factorial(n) for n in exponents)
