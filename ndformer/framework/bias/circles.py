"""Biases on circular axes: position differences are taken the short way round."""

from __future__ import annotations

from ndformer.framework.bias.base import Bias, Hidden, PositionBias, SumBias, WrappedBias
from ndformer.framework.tokens import Rows


class CircularBias(WrappedBias):
    """A bias of position differences with some axes on circles.

    Kernels with code of their own for a kind of bias do not know circles. They do not serve this class, and those that
    call pair() or rows() do.
    """

    def __init__(self, bias: Bias, lengths: tuple[float | None, ...]) -> None:
        """`lengths`: the length of the circle of each axis, in the unit of the positions; None: a line."""
        super().__init__(bias)
        self.lengths, self.handles_unplaced, self.placed = lengths, bias.handles_unplaced, bias.placed
        _set_lengths(bias, lengths)

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
