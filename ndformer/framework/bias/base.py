"""Terms added to attention logits, each written so that every kernel can use it.

    pair(b, h, i, j)   the value for one query i and key j, from index tensors of any one shape (FlexAttention's form)
    rows(lo, hi)       the same for queries lo..hi-1 and all keys, at once: (B or 1, H, hi - lo, N)

Values are final: slopes and 1/sqrt(head_dim) are inside. Position differences are taken before anything is squared or
multiplied, in the positions' own precision, so that far-away tokens lose nothing. Pairs with an unplaced token get no
bias: the kernels see to that.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ndformer.framework.tokens import Rows

TIE = 1e-9


class Bias:
    """Extend it with `pair` or `rows` or both. The attention layer says for which queries it is, with `made_for`."""

    size: tuple[int, int, int] | None = None  # (B, H, N)
    device: torch.device | None = None
    excludes = False  # gives -inf for some pairs
    handles_unplaced = False  # gives values for pairs with unplaced tokens itself
    placed: Tensor | None = None  # of one that does: which tokens have a place, (B or 1, N); None: all
    term = "bias"  # its name among the parts of the logits

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        raise TypeError(
            f"{type(self).__name__} exists only as whole rows, so backend 'flex' cannot use it: take 'dense' or 'sdpa'"
        )

    def rows(self, lo: int, hi: int) -> Tensor:
        """(B or 1, H or 1, hi - lo, N)."""
        if self.size is None or not self.pointwise:
            raise TypeError(f"{type(self).__name__} must write rows() or pair(), and hear made_for(q) before rows()")
        b, h, n = (torch.arange(size, device=self.device) for size in self.size)
        values = self.pair(b[:, None, None, None], h[:, None, None], n[lo:hi, None], n)
        return values.expand(self.size[0], self.size[1], hi - lo, self.size[2])

    def made_for(self, q: Tensor) -> None:
        """Note the size and device of the queries (B, H, N, h)."""
        self.size, self.device = (q.shape[0], q.shape[1], q.shape[2]), q.device

    @property
    def pointwise(self) -> bool:
        """Whether `pair` is written."""
        return type(self).pair is not Bias.pair

    def cut(self, rows: Rows) -> Bias | None:
        """This bias for the rows that packed rows are cut into; None where it cannot be cut."""
        return None

    def parts(self) -> dict[str, Bias]:
        """Its terms by name, which sum to it."""
        return {self.term: self}


class SumBias(Bias):
    """Several biases of one attention layer."""

    def __init__(self, terms: Sequence[Bias]) -> None:
        handling = [term for term in terms if term.handles_unplaced]
        self.handles_unplaced = bool(handling)
        self.placed = next((term.placed for term in handling if term.placed is not None), None)
        if self.placed is not None:
            terms = [term if term.handles_unplaced else Hidden(term, self.placed) for term in terms]
        self.terms = list(terms)
        self.excludes = any(term.excludes for term in terms)

    def made_for(self, q: Tensor) -> None:
        for term in self.terms:
            term.made_for(q)

    @property
    def pointwise(self) -> bool:
        return all(term.pointwise for term in self.terms)

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        values = [term.pair(b, h, i, j) for term in self.terms]
        return sum(values[1:], values[0])

    def rows(self, lo: int, hi: int) -> Tensor:
        values = [term.rows(lo, hi) for term in self.terms]
        return sum(values[1:], values[0])

    def cut(self, rows: Rows) -> Bias | None:
        terms = [term.cut(rows) for term in self.terms]
        kept = [term for term in terms if term is not None]
        return SumBias(kept) if len(kept) == len(terms) else None

    def parts(self) -> dict[str, Bias]:
        named: dict[str, Bias] = {}
        for term in self.terms:
            for name, part in term.parts().items():
                while name in named:
                    name += "'"
                named[name] = part
        return named


class Hidden(Bias):
    """A bias that unplaced tokens get nothing of, beside one that gives them values of its own."""

    handles_unplaced = True

    def __init__(self, bias: Bias, placed: Tensor) -> None:
        self.bias, self.excludes, self.term = bias, bias.excludes, bias.term
        self.placed = self.told = placed.contiguous()

    def made_for(self, q: Tensor) -> None:
        self.bias.made_for(q)

    @property
    def pointwise(self) -> bool:
        return self.bias.pointwise

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        row = b if self.told.shape[0] > 1 else torch.zeros_like(b)
        return torch.where(self.told[row, i] & self.told[row, j], self.bias.pair(b, h, i, j), 0.0)

    def rows(self, lo: int, hi: int) -> Tensor:
        both = self.told[:, lo:hi, None] & self.told[:, None, :]
        return torch.where(both[:, None], self.bias.rows(lo, hi), 0.0)

    def cut(self, rows: Rows) -> Bias | None:
        part = self.bias.cut(rows)
        return None if part is None else Hidden(part, rows.gather(self.told.flatten()))

    def parts(self) -> dict[str, Bias]:
        return {name: Hidden(part, self.told) for name, part in self.bias.parts().items()}


class PositionBias(Bias):
    """A bias of position differences: keeps each axis as a contiguous (B or 1, N) tensor, in its own precision."""

    def __init__(self, positions: Tensor, dtype: torch.dtype | None = None) -> None:
        """`dtype`: of differences, once they are taken; that of the positions unless given."""
        if positions.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"{type(self).__name__} gives positions no gradient, and these require one: detach() them, or take a "
                "rotary encoding or Sincos, which do"
            )
        self.axes = [axis.detach().contiguous() for axis in positions.unbind(-1)]
        self.dtype = positions.dtype if dtype is None else dtype

    def difference(self, p: int, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """r_j - r_i along axis p."""
        axis = self.axes[p]
        if axis.shape[0] == 1:
            return (axis[0, j] - axis[0, i]).to(self.dtype)
        return (axis[b, j] - axis[b, i]).to(self.dtype)

    def differences(self, lo: int, hi: int) -> list[Tensor]:
        """Per axis r_j - r_i: (B or 1, hi - lo, N)."""
        return [(axis[:, None, :] - axis[:, lo:hi, None]).to(self.dtype) for axis in self.axes]

    def cut_positions(self, rows: Rows) -> Tensor:
        return torch.stack([rows.gather(axis.flatten()) for axis in self.axes], dim=-1)


def squares(dr: Sequence[Tensor]) -> Tensor:
    return sum((d * d for d in dr[1:]), dr[0] * dr[0])


def norm(dr: Sequence[Tensor]) -> Tensor:
    return dr[0].abs() if len(dr) == 1 else squares(dr).sqrt()


def whole_steps(d: Tensor) -> Tensor:
    """Round differences to whole steps, halves up. A step of 5 times 0.1 is a half but for the last digit of float64:
    `TIE`, too small for float32 to see, puts all such steps on one side."""
    return torch.floor(d + (0.5 + TIE))
