"""Attention biases: terms added to attention logits, in two forms that kernels use.

    pair(b, h, i, j)   the values for queries i and keys j, given index tensors of equal shape (FlexAttention's form)
    rows(lo, hi)       the values for queries lo..hi-1 and all keys: (B or 1, H, hi - lo, N)

Values are final: slopes and 1/sqrt(head_dim) are included. Positions are subtracted before differences are squared or
multiplied, in the dtype of the positions, so that large positions lose no precision. Kernels set the bias of pairs with
an unplaced token to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ndformer.framework.tokens import Rows

TIE = 1e-9
ANTIPODE = 1e-6  # share of a circle within which two ways round count as equal; the negative one is taken then


class Bias:
    """Base class of attention biases: implement `pair`, `rows` or both. Attention layers call `set_queries` first."""

    size: tuple[int, int, int] | None = None  # (B, H, N)
    device: torch.device | None = None
    excludes = False  # some values are -inf
    handles_unplaced = False  # computes values for pairs with unplaced tokens itself
    placed: Tensor | None = None  # (B or 1, N) tokens with a position, if handles_unplaced; None: all
    term = "bias"  # name of this term of the logits

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        raise TypeError(
            f"backend 'flex' requires a bias with pair(), got {type(self).__name__}. Use backend 'dense' or 'sdpa'"
        )

    def rows(self, lo: int, hi: int) -> Tensor:
        """Return values (B or 1, H or 1, hi - lo, N) for queries lo..hi-1 and all keys."""
        if self.size is None or not self.pointwise:
            raise TypeError(f"{type(self).__name__} must implement rows() or pair(). Call set_queries(q) before rows()")
        b, h, n = (torch.arange(size, device=self.device) for size in self.size)
        values = self.pair(b[:, None, None, None], h[:, None, None], n[lo:hi, None], n)
        return values.expand(self.size[0], self.size[1], hi - lo, self.size[2])

    def set_queries(self, q: Tensor) -> None:
        """Store the size and device of the queries (B, H, N, h)."""
        self.size, self.device = (q.shape[0], q.shape[1], q.shape[2]), q.device

    @property
    def pointwise(self) -> bool:
        """Whether `pair` is implemented."""
        return type(self).pair is not Bias.pair

    def cut(self, rows: Rows) -> Bias | None:
        """Return this bias for rows gathered from packed rows; None if unsupported."""
        return None

    def parts(self) -> dict[str, Bias]:
        """Return the terms of this bias by name; they sum to it."""
        return {self.term: self}


class SumBias(Bias):
    """The sum of several biases."""

    def __init__(self, terms: Sequence[Bias]) -> None:
        handling = [term for term in terms if term.handles_unplaced]
        self.handles_unplaced = bool(handling)
        self.placed = next((term.placed for term in handling if term.placed is not None), None)
        if self.placed is not None:
            terms = [term if term.handles_unplaced else Hidden(term, self.placed) for term in terms]
        self.terms = list(terms)
        self.excludes = any(term.excludes for term in terms)

    def set_queries(self, q: Tensor) -> None:
        for term in self.terms:
            term.set_queries(q)

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
        supported = [term for term in terms if term is not None]
        return SumBias(supported) if len(supported) == len(terms) else None

    def parts(self) -> dict[str, Bias]:
        parts: dict[str, Bias] = {}
        for term in self.terms:
            for name, part in term.parts().items():
                while name in parts:
                    name += "'"
                parts[name] = part
        return parts


class WrappedBias(Bias):
    """Base class of a bias that changes another bias; without overrides it has the values of that one."""

    def __init__(self, bias: Bias) -> None:
        self.bias, self.excludes, self.term = bias, bias.excludes, bias.term

    def set_queries(self, q: Tensor) -> None:
        self.bias.set_queries(q)

    @property
    def pointwise(self) -> bool:
        return self.bias.pointwise

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.bias.pair(b, h, i, j)

    def rows(self, lo: int, hi: int) -> Tensor:
        return self.bias.rows(lo, hi)


class Hidden(WrappedBias):
    """A bias that is 0 for unplaced tokens, for use in a sum with a bias that handles them."""

    handles_unplaced = True

    def __init__(self, bias: Bias, placed: Tensor) -> None:
        super().__init__(bias)
        self.placed = self.mask = placed.contiguous()

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        row = b if self.mask.shape[0] > 1 else torch.zeros_like(b)
        return torch.where(self.mask[row, i] & self.mask[row, j], self.bias.pair(b, h, i, j), 0.0)

    def rows(self, lo: int, hi: int) -> Tensor:
        both = self.mask[:, lo:hi, None] & self.mask[:, None, :]
        return torch.where(both[:, None], self.bias.rows(lo, hi), 0.0)

    def cut(self, rows: Rows) -> Bias | None:
        part = self.bias.cut(rows)
        return None if part is None else Hidden(part, rows.gather(self.mask.flatten()))

    def parts(self) -> dict[str, Bias]:
        return {name: Hidden(part, self.mask) for name, part in self.bias.parts().items()}


class PositionBias(Bias):
    """A bias computed from position differences. Each axis is a contiguous tensor (B or 1, N) in its original dtype."""

    lengths: Sequence[float | None] | None = None  # of circular axes, whose differences are the short way round

    def __init__(self, positions: Tensor, dtype: torch.dtype | None = None) -> None:
        """`dtype`: the dtype to which differences are cast; default: the dtype of the positions."""
        if positions.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"positions for {type(self).__name__} must not require gradients. Call detach() on them, or use an "
                "encoding with gradients of positions, Sincos or a rotary one"
            )
        self.axes = [axis.detach().contiguous() for axis in positions.unbind(-1)]
        self.dtype = positions.dtype if dtype is None else dtype

    def difference(self, p: int, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return r_j - r_i along axis p."""
        axis = self.axes[p]
        if axis.shape[0] == 1:
            return self._shortest(p, axis[0, j] - axis[0, i]).to(self.dtype)
        return self._shortest(p, axis[b, j] - axis[b, i]).to(self.dtype)

    def differences(self, lo: int, hi: int) -> list[Tensor]:
        """Return r_j - r_i per axis, each (B or 1, hi - lo, N)."""
        differences = [axis[:, None, :] - axis[:, lo:hi, None] for axis in self.axes]
        return [self._shortest(p, d).to(self.dtype) for p, d in enumerate(differences)]

    def _shortest(self, p: int, d: Tensor) -> Tensor:
        length = None if self.lengths is None else self.lengths[p]
        return d if length is None else d - length * torch.floor(d / length + (0.5 + ANTIPODE))

    def cut_positions(self, rows: Rows) -> Tensor:
        return torch.stack([rows.gather(axis.flatten()) for axis in self.axes], dim=-1)


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


Select = Callable[[Tensor], Tensor]


class FormulaBias(PositionBias):
    """A bias given by one formula of the position difference and of numbers per head or query: implement `values`."""

    def values(self, dr: Sequence[Tensor], select: Select) -> Tensor:
        """Return the bias at dr = r_j - r_i; `select` picks the numbers of these pairs from (H,) or (B, H, N)."""
        raise NotImplementedError

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        dr = [self.difference(p, b, i, j) for p in range(len(self.axes))]
        return self.values(dr, lambda t: t[h] if t.dim() == 1 else t[b, h, i])

    def rows(self, lo: int, hi: int) -> Tensor:
        dr = [d[:, None] for d in self.differences(lo, hi)]  # P of (B or 1, 1, n, N)
        return self.values(dr, lambda t: t[:, None, None] if t.dim() == 1 else t[:, :, lo:hi, None])


def cut_heads(t: Tensor, rows: Rows) -> Tensor:
    """Gather values (B, H, N, ...) of packed rows into rows (R, H, K, ...)."""
    return rows.gather(t.transpose(1, 2).flatten(0, 1)).transpose(1, 2).contiguous()


def squares(dr: Sequence[Tensor]) -> Tensor:
    return sum((d * d for d in dr[1:]), dr[0] * dr[0])


def norm(dr: Sequence[Tensor]) -> Tensor:
    return dr[0].abs() if len(dr) == 1 else squares(dr).sqrt()


def round_to_steps(d: Tensor) -> Tensor:
    """Round differences to integers, halves up.

    In float64, 5 * 0.1 differs from 0.5 in the last digit: adding `TIE` rounds all such values to the same side.
    """
    return torch.floor(d + (0.5 + TIE))
