"""The data of an attention layer for the page: queries, keys, and compact, exact encodings of its bias terms.

polynomial   a polynomial of r_j - r_i with coefficients per query: PaPE and its relatives
distance     a curve of |r_j - r_i| with parameters per head: ALiBi, KERPLE, ...
steps        a value per offset between grid cells: biases that depend on positions only (tables, cones, networks)
whole        all pairs: other biases that depend on token contents (CoPE, SaPE2, Relative), up to MAX_NUMBERS per sample
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.attention_maps import AttentionMaps
from ndformer.framework.bias.base import Bias, Hidden, PositionBias
from ndformer.framework.bias.curves import CurveBias, gaussian, logarithm, power
from ndformer.framework.bias.parabolas import SeparableBias
from ndformer.framework.bias.pointwise import DistanceBias
from ndformer.framework.bias.polynomials import PolynomialBias
from ndformer.framework.errors import DataError
from ndformer.framework.kernels.masks import bias_rows, placed_for
from ndformer.framework.tokens import Where
from ndformer.lab.explorer.arrays import BITS, Blob, fixed

MAX_NUMBERS = 2**23  # of `whole` terms in a page, per sample
CLOSE, LOOSE = 2.5e-4, 5e-3  # allowed errors of logits from q and k, and from q and k before rotation
CURVES: dict[Callable[..., Tensor], str] = {power: "power", logarithm: "logarithm", gaussian: "gaussian"}
Form = dict[str, Any]


@dataclass
class Budget:
    """The remaining number of values for `whole` terms."""

    left: int = field(default_factory=lambda: MAX_NUMBERS)

    def take(self, count: int, name: str) -> None:
        self.left -= count
        if self.left < 0:
            raise DataError(
                f"the term '{name}' of this encoding has no short form and would be {count:,} numbers in a layer, more "
                f"than a page holds ({MAX_NUMBERS:,} in all layers): take fewer layers or a smaller sample, or PaPE, "
                "ALiBi or a rotary encoding"
            )


def layer_data(maps: AttentionMaps, tokens: Tensor, budget: Budget) -> tuple[dict[str, Any], str]:
    """Return the page's data of one row's attention maps, for `tokens` (N',), and its arrays as text."""
    vectors, blob = maps.vectors(), Blob()
    q, k, plain_q, plain_k = (numbers(values.float()[0][:, tokens]) for values in vectors[:4])  # (H, N', h)
    scale = maps.layer.head_dim**-0.5
    found: dict[str, Any] = dict(heads=maps.heads, scale=scale, semantic=_pair(blob, q, k, CLOSE / scale))
    if not (np.array_equal(q, plain_q) and np.array_equal(k, plain_k)):
        found["plain"] = _pair(blob, plain_q, plain_k, LOOSE / scale)
    parts = {} if vectors.bias is None else vectors.bias.parts()
    with torch.no_grad():
        found["terms"] = [
            dict(name=name) | encode_bias(part, maps.where, tokens, blob, budget) for name, part in parts.items()
        ]
    return found | dict(arrays=blob.headers), blob.text


def _pair(blob: Blob, q: np.ndarray, k: np.ndarray, max_error: float) -> list[int]:
    """Add q and k with as few bits as keep the error of their products within `max_error`."""
    for bits in BITS if q.size else ():
        pairs = zip(fixed(q, bits), fixed(k, bits), q, k)
        if max(np.abs(a @ b.T - exact_a @ exact_b.T).max() for a, b, exact_a, exact_b in pairs) <= max_error:
            return [blob.add_fixed(q, bits), blob.add_fixed(k, bits)]
    return [blob.add(q), blob.add(k)]


def encode_bias(bias: Bias, where: Where, tokens: Tensor, blob: Blob, budget: Budget) -> Form:
    """Encode a part of the bias of one row for its `tokens` (N',). Pairs with the tokens in `hides` get 0."""
    placed = placed_for(bias, where)
    inner = bias
    if isinstance(bias, Hidden):
        placed, inner = bias.mask, bias.bias
    form = _polynomial(inner, tokens, blob) or _distance(inner, tokens, blob)
    if form is None:
        return _steps(bias, where, blob) or _dense(bias, where, tokens, blob, budget)
    hides = [] if placed is None else torch.nonzero(~placed[0, tokens]).flatten().tolist()
    return form | dict(hides=hides)


def _polynomial(bias: Bias, tokens: Tensor, blob: Blob) -> Form | None:
    if isinstance(bias, SeparableBias):
        axes, entries = len(bias.axes), bias.parabolas().entries
        terms = {
            tuple(exponents.count(axis) for axis in range(axes)): (len(set(exponents)), entry)
            for exponents, entry in entries.items()
        }
    elif isinstance(bias, PolynomialBias):
        terms = {exponents: (1, coefficient) for exponents, coefficient in zip(bias.exponents, bias.coefficients)}
    else:
        return None
    return dict(
        form="polynomial",
        axes=_axes(bias, tokens, blob),
        exponents=[list(exponents) for exponents in terms],
        times=[times for times, _ in terms.values()],  # off-diagonal entries of M count twice
        coefficients=[blob.add(numbers(coefficient[0][:, tokens])) for _, coefficient in terms.values()],
    )


def _distance(bias: Bias, tokens: Tensor, blob: Blob) -> Form | None:
    if isinstance(bias, DistanceBias):
        curve, parameters = "linear", [bias.slopes]
    elif isinstance(bias, CurveBias) and bias.curve in CURVES:
        curve, parameters = CURVES[bias.curve], bias.numbers
    else:
        return None
    values = [parameter.tolist() for parameter in parameters]
    return dict(form="distance", axes=_axes(bias, tokens, blob), curve=curve, numbers=values)


def _axes(bias: PositionBias, tokens: Tensor, blob: Blob) -> list[int]:
    return [blob.add(numbers(axis[0, tokens])) for axis in bias.axes]


def _steps(bias: Bias, where: Where, blob: Blob) -> Form | None:
    """Encode a bias that depends only on the offset between grid cells, or return None for other biases.

    Tokens before the grid get separate rows and columns.
    """
    if where.grid is None:
        return None
    N, cells = where.positions.shape[1], math.prod(where.grid)
    values = bias_rows(bias, where, 0, N)[0]  # (H or 1, N, N)
    places = torch.cartesian_prod(*(torch.arange(n) for n in where.grid)).view(cells, -1).to(values.device)
    sizes = torch.tensor([2 * n - 1 for n in where.grid], device=values.device)
    offset = torch.zeros(cells, cells, dtype=torch.int64, device=values.device)
    for place, n, size in zip(places.T, where.grid, sizes):
        offset = offset * size + place[None, :] - place[:, None] + n - 1  # (cells, cells)
    before = N - cells
    inner = values[:, before:, before:].flatten(1)
    table = values.new_zeros(len(values), int(sizes.prod())).index_copy(1, offset.flatten(), inner)
    decoded = table[:, offset.flatten()]
    if not bool(((decoded == inner) | ((decoded - inner).abs() <= 1e-5)).all()):  # == also for -inf
        return None
    rows, columns = values[:, :before], values[:, before:, :before]
    return dict(
        form="steps",
        grid=list(where.grid),
        table=blob.add(numbers(table)),
        rows=blob.add(numbers(rows)),  # (H or 1, before, N) for queries before the grid
        columns=blob.add(numbers(columns)),  # (H or 1, cells, before) for keys before the grid
    )


def _dense(bias: Bias, where: Where, tokens: Tensor, blob: Blob, budget: Budget) -> Form:
    values = bias_rows(bias, where, 0, where.positions.shape[1])[0][:, tokens][:, :, tokens]  # (H or 1, N', N')
    budget.take(values.numel(), bias.term)
    return dict(form="whole", values=blob.add(numbers(values)))


def numbers(values: Tensor) -> np.ndarray:
    exact = values if values.dtype == torch.float64 else values.float()
    return exact.detach().cpu().numpy()
