"""Terms of attention logits in as few numbers as they can be computed from again, exactly.

polynomial   of r_j - r_i, with coefficients of each query: all that PaPE and its kin add
distance     a curve of |r_j - r_i|, with numbers of each head: ALiBi, KERPLE ...
steps        a value for each step between cells of a grid: whatever positions alone decide (tables, cones, networks)
whole        all pairs: what contents decide in no such form (CoPE, SaPE2, Relative), up to MOST numbers a sample
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, Hidden, PositionBias
from ndformer.framework.bias.curves import CurveBias, gaussian, logarithm, power
from ndformer.framework.bias.parabolas import SeparableBias
from ndformer.framework.bias.pointwise import DistanceBias
from ndformer.framework.bias.polynomials import PolynomialBias
from ndformer.framework.errors import DataError
from ndformer.framework.kernels.masks import bias_rows, placed_for
from ndformer.framework.pictures.explorer.arrays import Blob
from ndformer.framework.tokens import Where

MAX_NUMBERS = 2**23  # numbers of whole terms that a page takes for a sample
CURVES: dict[Callable[..., Tensor], str] = {power: "power", logarithm: "logarithm", gaussian: "gaussian"}
Form = dict[str, Any]


@dataclass
class Budget:
    """How many numbers of whole terms may still come."""

    left: int = field(default_factory=lambda: MAX_NUMBERS)

    def take(self, count: int, name: str) -> None:
        self.left -= count
        if self.left < 0:
            raise DataError(
                f"the term '{name}' of this encoding has no short form and would be {count:,} numbers in a layer, more "
                f"than a page holds ({MAX_NUMBERS:,} in all layers): take fewer layers or a smaller sample, or PaPE, ALiBi or "
                "a rotary encoding"
            )


def encode_bias(bias: Bias, where: Where, tokens: Tensor, blob: Blob, budget: Budget) -> Form:
    """A part of a bias of one row, for its tokens `kept` (N',); with which tokens it `hides`: pairs with them get 0."""
    placed = placed_for(bias, where)
    inner = bias
    if isinstance(bias, Hidden):
        placed, inner = bias.told, bias.bias
    found = _polynomial(inner, tokens, blob) or _distance(inner, tokens, blob)
    if found is None:
        return _steps(bias, where, blob) or _dense(bias, where, tokens, blob, budget)
    hides = [] if placed is None else torch.nonzero(~placed[0, tokens]).flatten().tolist()
    return found | dict(hides=hides)


def _polynomial(bias: Bias, tokens: Tensor, blob: Blob) -> Form | None:
    if isinstance(bias, SeparableBias):
        axes, entries = len(bias.axes), bias.parabolas().entries
        terms = {tuple(at.count(axis) for axis in range(axes)): (len(set(at)), one) for at, one in entries.items()}
    elif isinstance(bias, PolynomialBias):
        terms = {at: (1, one) for at, one in zip(bias.exponents, bias.coefficients)}
    else:
        return None
    return dict(
        form="polynomial",
        axes=_axes(bias, tokens, blob),
        exponents=[list(at) for at in terms],
        times=[times for times, _ in terms.values()],  # off-diagonal entries of M count twice
        coefficients=[blob.add(numbers(one[0][:, tokens])) for _, one in terms.values()],
    )


def _distance(bias: Bias, tokens: Tensor, blob: Blob) -> Form | None:
    if isinstance(bias, DistanceBias):
        curve, own = "linear", [bias.slopes]
    elif isinstance(bias, CurveBias) and bias.curve in CURVES:
        curve, own = CURVES[bias.curve], bias.numbers
    else:
        return None
    return dict(form="distance", axes=_axes(bias, tokens, blob), curve=curve, numbers=[one.tolist() for one in own])


def _axes(bias: PositionBias, tokens: Tensor, blob: Blob) -> list[int]:
    return [blob.add(numbers(axis[0, tokens])) for axis in bias.axes]


def _steps(bias: Bias, where: Where, blob: Blob) -> Form | None:
    """If the value of two cells of a grid depends on nothing but the step between them; tokens before the grid have
    rows and columns of their own."""
    if where.grid is None:
        return None
    N, cells = where.positions.shape[1], math.prod(where.grid)
    values = bias_rows(bias, where, 0, N)[0]  # (H or 1, N, N)
    places = torch.cartesian_prod(*(torch.arange(n) for n in where.grid)).view(cells, -1).to(values.device)
    sizes = torch.tensor([2 * n - 1 for n in where.grid], device=values.device)
    which = torch.zeros(cells, cells, dtype=torch.int64, device=values.device)
    for place, n, size in zip(places.T, where.grid, sizes):
        which = which * size + place[None, :] - place[:, None] + n - 1  # (cells, cells)
    before = N - cells
    inner = values[:, before:, before:].flatten(1)
    table = values.new_zeros(len(values), int(sizes.prod())).index_copy(1, which.flatten(), inner)
    again = table[:, which.flatten()]
    if not bool(((again == inner) | ((again - inner).abs() <= 1e-5)).all()):  # both -inf are equal
        return None
    rows, columns = values[:, :before], values[:, before:, :before]
    return dict(
        form="steps",
        grid=list(where.grid),
        table=blob.add(numbers(table)),
        rows=blob.add(numbers(rows)),  # (H or 1, before, N) of queries before the grid
        columns=blob.add(numbers(columns)),  # (H or 1, cells, before) of keys before it
    )


def _dense(bias: Bias, where: Where, tokens: Tensor, blob: Blob, budget: Budget) -> Form:
    values = bias_rows(bias, where, 0, where.positions.shape[1])[0][:, tokens][:, :, tokens]  # (H or 1, N', N')
    budget.take(values.numel(), bias.term)
    return dict(form="whole", values=blob.add(numbers(values)))


def numbers(values: Tensor) -> np.ndarray:
    exact = values if values.dtype == torch.float64 else values.float()
    return exact.detach().cpu().numpy()
