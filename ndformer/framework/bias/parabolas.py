"""Separable (low-rank) biases: parabolas of the position difference, as in PaPE and PaPE-RI.

As a polynomial in r_j, a parabola has coefficients that depend only on r_i, so it can be computed by extra channels of
q and k. To keep float32 precision there, positions are relative to origins near the queries (see channels.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, FormulaBias, Select, cut_heads, squares
from ndformer.framework.bias.channels import LocalPositions, single_block
from ndformer.framework.tokens import Rows


class Parabolas(NamedTuple):
    """The coefficients and positions of a separable bias."""

    entries: dict[tuple[int, ...], Tensor]  # (p, q) of M with p <= q, (p,) of c, each (B, H, N); missing ones are 0
    axes: list[Tensor]  # P of (B or 1, N)

    def coefficients(self, dims: int, shape: Sequence[int]) -> list[Tensor]:
        """Return the upper entries of M, row by row, then those of c, for `dims` axes, each expanded to `shape`."""
        zero = next(iter(self.entries.values())).new_zeros(())
        names = [*upper_entries(dims), *((p,) for p in range(dims))]
        return [self.entries.get(name, zero).expand(shape) for name in names]


def upper_entries(dims: int) -> list[tuple[int, int]]:
    """Return the indices of the upper entries of a symmetric matrix, row by row."""
    return [(p, q) for p in range(dims) for q in range(p, dims)]


class SeparableBias(FormulaBias):
    """The bias dr' M_i dr + c_i' dr with dr = r_j - r_i, also a product of channels of queries and keys.

    `local`: positions for these channels (channels.py); None if float32 is not precise enough.
    """

    def __init__(self, positions: Tensor, dtype: torch.dtype, local: LocalPositions | None = None) -> None:
        super().__init__(positions, dtype)
        self.local = local

    @property
    def separable(self) -> bool:
        """Whether it may be computed by extra channels of q and k."""
        return self.local is not None

    def parabolas(self) -> Parabolas:
        raise NotImplementedError

    def features(self) -> tuple[Tensor, Tensor]:
        """Return extra channels of q and k, (B, H, N, F) and (calls, B or 1, 1, N, F), whose product is the bias.

        They are the coefficients and monomials of dr' M dr + c' dr as a polynomial in r_j.
        """
        assert self.local is not None
        entries = self.parabolas().entries
        M = {key: m for key, m in entries.items() if len(key) == 2}
        zero = torch.zeros_like(next(iter(entries.values())))
        c = [entries.get((p,), zero) for p in range(len(self.axes))]
        r = [axis.queries for axis in self.local.axes]
        linear = list(c)  # c - 2 M r_i
        for (a, b), m in M.items():
            linear[a] = linear[a] - 2 * m * r[b]
            if a != b:
                linear[b] = linear[b] - 2 * m * r[a]
        halves = [position * (slope + first) for position, slope, first in zip(r, linear, c)]
        constant = -0.5 * sum(halves[1:], halves[0])  # r_i' M r_i - c' r_i
        return self.local.query_channels(constant, linear, M), self.local.key_channels(list(M))

    def cut_local(self, positions: Tensor) -> LocalPositions | None:
        """Return local positions for rows gathered from packed rows, which have no grid."""
        return single_block(positions) if self.separable else None


class QuadraticBias(SeparableBias):
    """PaPE's bias: one quadratic form M and slope c per query and head.

    M lists the P(P+1)/2 upper entries of a symmetric matrix, row by row, each (B, H, N); c lists P slopes. Either may
    be None.
    """

    def __init__(
        self,
        M: Sequence[Tensor] | None,
        c: Sequence[Tensor] | None,
        positions: Tensor,
        local: LocalPositions | None = None,
    ) -> None:
        super().__init__(positions, (M or c or [positions])[0].dtype, local)
        self.M = None if M is None else list(M)
        self.c = None if c is None else list(c)

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        values = [select(m) * _power(dr, p, q) for m, (p, q) in zip(self.M or [], upper_entries(len(dr)))]
        values += [select(c) * d for c, d in zip(self.c or [], dr)]
        return sum(values[1:], values[0])

    def parabolas(self) -> Parabolas:
        entries: dict[tuple[int, ...], Tensor] = dict(zip(upper_entries(len(self.axes)), self.M or []))
        return Parabolas(entries | {(p,): c for p, c in enumerate(self.c or [])}, self.axes)

    def cut(self, rows: Rows) -> Bias:
        M = None if self.M is None else [cut_heads(m, rows) for m in self.M]
        c = None if self.c is None else [cut_heads(c, rows) for c in self.c]
        positions = self.cut_positions(rows)
        return QuadraticBias(M, c, positions, self.cut_local(positions))

    def parts(self) -> dict[str, Bias]:
        positions = torch.stack(self.axes, dim=-1)
        parts: dict[str, Bias] = {}
        if self.M is not None:
            parts["distance"] = QuadraticBias(self.M, None, positions)
        if self.c is not None:
            parts["direction"] = QuadraticBias(None, self.c, positions)
        return parts


class IsotropicBias(SeparableBias):
    """PaPE-RI's bias: alpha_i |r_j - r_i|^2."""

    term = "distance"

    def __init__(self, alpha: Tensor, positions: Tensor, local: LocalPositions | None = None) -> None:
        super().__init__(positions, alpha.dtype, local)
        self.alpha = alpha  # (B, H, N)

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        return select(self.alpha) * squares(dr)

    def parabolas(self) -> Parabolas:
        return Parabolas({(p, p): self.alpha for p in range(len(self.axes))}, self.axes)

    def features(self) -> tuple[Tensor, Tensor]:
        """Return the channels of the base class, or fewer of them, in fewer steps, where tokens form one block."""
        assert self.local is not None
        if not self.local.is_single_block:
            return super().features()
        fq, fk = self.local.isotropic_channels()
        return self.alpha[..., None] * fq, fk

    def cut(self, rows: Rows) -> Bias:
        positions = self.cut_positions(rows)
        return IsotropicBias(cut_heads(self.alpha, rows), positions, self.cut_local(positions))


def _power(r: Sequence[Tensor], a: int, b: int) -> Tensor:
    return r[a] * r[b] if a == b else 2 * r[a] * r[b]
