"""Tokens and where they are: `Where`, `TokenSet`, `Rows` and `join`.

A *row* is whatever may attend to itself: one sample for a ViT, one serialized window for a point transformer, several
packed samples told apart by `segment`. Padding and packing in numbers, for samples of 3 and 2 tokens:

    padded   valid   = [[1, 1, 1], [1, 1, 0]]        two rows of three
    packed   segment = [[0, 0, 0, 1, 1, -1]]         one row; -1 is padding
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor


@dataclass(frozen=True, eq=False)
class Rows:
    """Which of T flat tokens stand in which row: R rows of K slots. A token may stand in several rows."""

    index: Tensor  # (R, K) int64 into the flat tokens; any number where invalid
    valid: Tensor  # (R, K) False = an empty slot

    def gather(self, flat: Tensor) -> Tensor:
        """(T, ...) -> (R, K, ...); empty slots are 0."""
        empty = ~self.valid
        taken = flat[self.index.masked_fill(empty, 0)]
        return taken.masked_fill(empty.reshape(*empty.shape, *[1] * (flat.dim() - 1)), 0)

    def scatter(self, rows: Tensor, total: int) -> Tensor:
        """(R, K, ...) -> (total, ...): the value of each token's first slot, 0 for tokens in no row.

        The first slot is a token's own one when later rows borrow it as context (Point Transformer V3 fills its last
        window so). It is a gather by the inverse index: deterministic, also in its gradient.
        """
        nowhere = self.index.numel()
        slots = torch.arange(nowhere, device=rows.device).masked_fill(~self.valid.flatten(), nowhere)
        home = torch.full((total,), nowhere, dtype=torch.int64, device=rows.device)
        home = home.scatter_reduce(0, self.index.masked_fill(~self.valid, 0).flatten(), slots, "amin")  # (T,)
        flat = rows.flatten(0, 1)
        return torch.cat([flat, flat.new_zeros(1, *flat.shape[1:])])[home]

    def where(self, where: Where) -> Where:
        """The `Where` of the rows, from the `Where` of the tokens they are cut from (its rows laid end to end)."""
        valid = self.valid if where.valid is None else self.valid & self.gather(where.valid.flatten())
        placed = None if where.placed is None else self.gather(where.placed.flatten())
        objects = None if where.objects is None else self.gather(where.objects.flatten())
        return Where(self.gather(where.positions.flatten(0, 1)), valid=valid, placed=placed, objects=objects)


@dataclass(frozen=True, eq=False)
class Where:
    """Where N tokens are, in B rows, in P position dimensions. Slowest axis first: (y, x), (t, y, x); points (x, y, z).

    `positions` may be given once, as (1, N, P), where all rows share them, while the others have B rows or, shared too,
    one. They are set to 0 where invalid or unplaced, so nothing there can reach a result.
    """

    positions: Tensor  # (B or 1, N, P) at least float32, also under autocast
    valid: Tensor | None = None  # (B, N) False = padding
    placed: Tensor | None = None  # (B, N) False = a token with no place of its own (class, register token)
    segment: Tensor | None = None  # (B, N) which sample, where rows are packed: contiguous runs, -1 = padding
    grid: tuple[int, ...] | None = None  # the LAST prod(grid) tokens of every row are this full grid, row-major
    objects: Tensor | None = None  # (B, N) the number of the object that a token is of, 0 = background; a label

    # Facts that steer the choice of kernel. They are read off the values once, here, because a compiled graph cannot
    # look at values; None where that would make a GPU wait, or inside a graph: then the choice is the careful one.
    # `extent`: per axis, log2 of a row's size, rounded up. `cut`: packed rows as plain ones. `only_grid`: no token but
    # those of the grid has a place.
    extent: tuple[int, ...] | None = field(init=False, default=None, repr=False)
    cut: tuple[tuple[Rows, Where], ...] | None = field(init=False, default=None, repr=False)
    only_grid: bool = field(init=False, default=False, repr=False)

    def __post_init__(self) -> None:
        self._check()
        set_ = object.__setattr__
        if self.segment is not None:
            for name in ("positions", "valid", "placed", "segment", "objects"):  # packed rows share nothing
                tensor = getattr(self, name)
                if tensor is not None:
                    set_(self, name, tensor.expand(self.batch, *tensor.shape[1:]))
            inside = self.segment >= 0
            set_(self, "valid", inside if self.valid is None else inside & self.valid)
        real = self.real
        if real is not None:
            set_(self, "positions", torch.where(real[..., None], self.positions, 0.0))
        if _readable(self.positions):
            if self.segment is not None and self.valid is not None:
                set_(self, "cut", tuple((rows, rows.where(self)) for rows in _runs(self.segment, self.valid)))
            set_(self, "extent", _extent(self))
            if self.grid is not None:
                before = self.positions.shape[1] - math.prod(self.grid)
                free = before > 0 and (self.placed is None or bool(self.placed[:, :before].any()))
                set_(self, "only_grid", not free)

    def _check(self) -> None:
        r = self.positions
        if r.dim() != 3:
            raise ValueError(f"positions must be (rows, tokens, dimensions), got shape {tuple(r.shape)}")
        if r.dtype not in (torch.float32, torch.float64):
            raise TypeError(
                f"positions must be float32 or float64, got {r.dtype}: 16 bits cannot tell 512 from 513, and integer "
                "times want their reference subtracted before .float()"
            )
        for name in ("valid", "placed", "segment", "objects"):
            mask = getattr(self, name)
            if mask is None:
                continue
            if (
                mask.dim() != 2
                or mask.shape[1] != r.shape[1]
                or (mask.shape[0] != r.shape[0] and 1 not in (mask.shape[0], r.shape[0]))
            ):
                raise ValueError(
                    f"{name} must be (rows, tokens) like positions {tuple(r.shape)}, got {tuple(mask.shape)}"
                )
            if name in ("valid", "placed") and mask.dtype != torch.bool:
                raise TypeError(f"{name} must be bool, got {mask.dtype}: write {name}.bool()")
            if name == "segment" and (mask.is_floating_point() or mask.dtype == torch.bool):
                raise TypeError(f"segment numbers samples with integers, -1 for padding, got {mask.dtype}")
            if name == "objects" and (mask.is_floating_point() or mask.dtype == torch.bool):
                raise TypeError(f"objects are numbered with integers, 0 for the background, got {mask.dtype}")
        if self.grid is None:
            return
        if self.valid is not None or self.segment is not None:
            raise ValueError("grid speaks of full rows: it cannot stand beside valid or segment")
        if len(self.grid) != r.shape[2] or math.prod(self.grid) > r.shape[1]:
            raise ValueError(
                f"grid {self.grid} does not fit positions {tuple(r.shape)}: one size per axis, their product at most N"
            )

    @property
    def batch(self) -> int:
        """B, the number of rows (1 where everything is shared by all rows)."""
        tensors = (self.positions, self.valid, self.placed, self.segment, self.objects)
        return max(t.shape[0] for t in tensors if t is not None)

    @property
    def real(self) -> Tensor | None:
        """(B, N) True = a token with a position of its own: neither padding nor unplaced. None where all are."""
        if self.valid is None or self.placed is None:
            return self.placed if self.valid is None else self.valid
        return self.valid & self.placed

    def runs(self) -> Tensor:
        """(B, N) the number, counted from 0 in each row, of the contiguous segment a token stands in."""
        assert self.segment is not None
        change = self.segment[:, 1:] != self.segment[:, :-1]
        return torch.nn.functional.pad(change.long().cumsum(1), (1, 0))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Where:
        labels = (self.valid, self.placed, self.segment, self.objects)
        *masks, objects = (None if label is None else label.to(device=device) for label in labels)
        return Where(self.positions.to(device=device, dtype=dtype), *masks, grid=self.grid, objects=objects)


@dataclass(frozen=True, eq=False)
class TokenSet:
    """Features and where they are."""

    features: Tensor  # (B, N, C)
    where: Where
    modality: Tensor | None = None  # (B, N) which modality a token came from, where several are joined

    def __post_init__(self) -> None:
        x, r = self.features, self.where.positions
        if x.dim() != 3 or x.shape[1] != r.shape[1] or self.where.batch not in (1, x.shape[0]):
            raise ValueError(
                f"features must be (rows, tokens, channels) for positions {tuple(r.shape)}, got {tuple(x.shape)}"
            )

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> TokenSet:
        modality = None if self.modality is None else self.modality.to(device=device)
        exact = dtype if dtype == torch.float64 else None  # positions stay float32 for features in 16 bit
        return TokenSet(self.features.to(device=device, dtype=dtype), self.where.to(device, exact), modality)


def join(*sets: TokenSet) -> TokenSet:
    """Token sets of one position space as one set, side by side in each row.

    Tokens of the i-th set get modality i, unless every set already says its own.
    """
    first = sets[0]
    for other in sets[1:]:
        if other.where.positions.shape[2] != first.where.positions.shape[2]:
            raise ValueError(
                f"sets of {first.where.positions.shape[2]} and {other.where.positions.shape[2]} position dimensions "
                "cannot be joined: place both in one space first (an image plane in 3-D, for example)"
            )
        if other.features.shape[2] != first.features.shape[2]:
            raise ValueError(
                f"sets of {first.features.shape[2]} and {other.features.shape[2]} channels cannot be joined"
            )
    if any(s.where.segment is not None for s in sets):
        raise ValueError("join before packing: side by side, the segments of packed rows would not stay contiguous")
    named = [s.modality is not None for s in sets]
    if any(named) and not all(named):
        raise ValueError("either all sets name the modality of their tokens or none does")

    batch = max(s.features.shape[0] for s in sets)

    def beside(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.expand(batch, *t.shape[1:]) for t in tensors], dim=1)

    def masks(name: str, missing: Callable[[TokenSet], Tensor]) -> Tensor | None:
        given = [getattr(s.where, name) for s in sets]
        if all(mask is None for mask in given):
            return None
        return beside([missing(s) if mask is None else mask for s, mask in zip(sets, given)])

    modality = [
        s.modality if s.modality is not None else torch.full_like(_all(s), i, dtype=torch.int64)
        for i, s in enumerate(sets)
    ]
    valid = masks("valid", _all)
    where = Where(
        beside([s.where.positions for s in sets]),
        valid=valid,
        placed=masks("placed", _all),
        grid=sets[-1].where.grid if valid is None else None,  # the last tokens of a row are still that grid
        objects=masks("objects", lambda s: _all(s).long() * 0),
    )
    return TokenSet(beside([s.features for s in sets]), where, beside(modality))


def _readable(t: Tensor) -> bool:
    """Whether its values can be looked at without a wait: not in a graph, on meta, of a fake tensor, under vmap."""
    if torch.compiler.is_compiling() or t.device.type != "cpu":
        return False
    return type(t) in (Tensor, nn.Parameter) and not is_functorch_wrapped_tensor(t)


def _all(tokens: TokenSet) -> Tensor:
    return torch.ones(tokens.features.shape[:2], dtype=torch.bool, device=tokens.features.device)


def _runs(segment: Tensor, valid: Tensor) -> tuple[Rows, ...]:
    """The runs of packed rows as rows of their own, grouped by length so that padding at most doubles the slots."""
    B, N = segment.shape
    start = torch.ones_like(segment, dtype=torch.bool)
    start[:, 1:] = segment[:, 1:] != segment[:, :-1]
    starts = start.flatten().nonzero().squeeze(1)  # (runs,)
    lengths = torch.diff(starts, append=torch.tensor([B * N]))
    kept = segment.flatten()[starts] >= 0
    starts, lengths = starts[kept], lengths[kept]
    groups = []
    size = torch.ceil(torch.log2(lengths.double())).long()
    for k in size.unique().tolist():
        start_k, length_k = starts[size == k], lengths[size == k]
        slot = torch.arange(int(length_k.max()))
        inside = slot < length_k[:, None]  # (R, K)
        index = start_k[:, None] + slot * inside
        groups.append(Rows(index, inside & valid.flatten()[index]))
    return tuple(groups)


def _extent(where: Where) -> tuple[int, ...]:
    """Per axis, log2 of the largest size of a row (of a sample where packed), rounded up: 5 for positions 0..31."""
    P = where.positions.shape[2]
    if where.cut is not None:
        sizes = [part.extent for _, part in where.cut if part.extent is not None]
        return tuple(max((size[p] for size in sizes), default=0) for p in range(P))
    r, real = where.positions.detach(), where.real
    if r.numel() == 0:
        return (0,) * P
    low, high = r, r
    if real is not None:
        low = torch.where(real[..., None], r, math.inf)
        high = torch.where(real[..., None], r, -math.inf)
    size = (high.amax(1) - low.amin(1)).amax(0)  # (P,)
    return tuple(
        math.ceil(math.log2(s)) if 1e-30 < s < math.inf else (-100 if s <= 1e-30 else 1000) for s in size.tolist()
    )
