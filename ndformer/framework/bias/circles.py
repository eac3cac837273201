"""Biases on circular axes: position differences are taken the short way round."""

from __future__ import annotations

from torch import Tensor

from ndformer.framework.bias.base import Bias, Hidden, PositionBias, SumBias
from ndformer.framework.tokens import Rows


class CircularBias(Bias):
    """A bias of position differences with some axes on circles.

    Kernels with code of their own for a kind of bias do not know circles. They do not serve this class, and those that
    call pair() or rows() do.
    """

    def __init__(self, bias: Bias, lengths: tuple[float | None, ...]) -> None:
        """`lengths`: the length of the circle of each axis, in the unit of the positions; None: a line."""
        self.bias, self.lengths = bias, lengths
        _set_lengths(bias, lengths)
        self.excludes, self.handles_unplaced, self.term = bias.excludes, bias.handles_unplaced, bias.term
        self.placed = bias.placed

    def set_queries(self, q: Tensor) -> None:
        self.bias.set_queries(q)

    @property
    def pointwise(self) -> bool:
        return self.bias.pointwise

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.bias.pair(b, h, i, j)

    def rows(self, lo: int, hi: int) -> Tensor:
        return self.bias.rows(lo, hi)

    def cut(self, rows: Rows) -> Bias | None:
        part = self.bias.cut(rows)
        return None if part is None else CircularBias(part, self.lengths)

    def parts(self) -> dict[str, Bias]:
        return {name: CircularBias(part, self.lengths) for name, part in self.bias.parts().items()}


def _set_lengths(bias: Bias, lengths: tuple[float | None, ...]) -> None:
    if isinstance(bias, PositionBias):
        bias.lengths = lengths
    elif isinstance(bias, Hidden):
        _set_lengths(bias.bias, lengths)
    elif isinstance(bias, SumBias):
        for term in bias.terms:
            _set_lengths(term, lengths)
