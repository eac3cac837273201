"""Tokens and their positions: `Where`, `TokenSet`, `Rows` and `join`.

A *row* is a sequence of tokens that may attend to each other: one sample for a ViT, one serialized window for a point
transformer, several packed samples distinguished by `segment`. Padding and packing for samples of 3 and 2 tokens:

    padded   valid   = [[1, 1, 1], [1, 1, 0]]        two rows of three
    packed   segment = [[0, 0, 0, 1, 1, -1]]         one row; -1 is padding
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

from ndformer.framework.system.devices import tensor_like

FEW_TOKENS = 32  # samples of packed rows with at most so many tokens may be padded
GRID_TOKENS = 128  # from so many on, attention is faster for samples on one grid (see bias/channels.py)

NUMBERS = dict(segment="sample numbers, -1 for padding", objects="object numbers, 0 for background")
FIELDS = "positions", "valid", "placed", "segment", "objects", "cameras"  # the tensors of a Where, all (B or 1, N, ...)


@dataclass(frozen=True, eq=False)
class Rows:
    """An assignment of T flat tokens to R rows of K slots; a token may appear in several rows."""

    index: Tensor  # (R, K) int64 into the flat tokens; arbitrary where invalid
    valid: Tensor  # (R, K) False = an empty slot
    full: bool = False  # known to have no empty slot
    spans: tuple[tuple[int, int], ...] = ()  # of rows of consecutive tokens, where known: the first and their number

    def gather(self, flat: Tensor) -> Tensor:
        """Gather flat values (T, ...) into rows (R, K, ...); empty slots are 0."""
        if self.full:
            return flat.index_select(0, self.index.flatten()).unflatten(0, self.index.shape)
        empty = ~self.valid
        values = flat[self.index.masked_fill(empty, 0)]
        return values.masked_fill(empty.reshape(*empty.shape, *[1] * (flat.dim() - 1)), 0)

    def scatter(self, rows: Tensor, total: int) -> Tensor:
        """Return (total, ...) from (R, K, ...): the value of each token's first slot, 0 for tokens in no row.

        The first slot is in its own row; later rows may borrow a token (PTv3's last window). It gathers: deterministic.
        """
        empty = self.index.numel()
        slots = torch.arange(empty, device=rows.device).masked_fill(~self.valid.flatten(), empty)
        first_slot = torch.full((total,), empty, dtype=torch.int64, device=rows.device)
        first_slot = first_slot.scatter_reduce(0, self.index.masked_fill(~self.valid, 0).flatten(), slots, "amin")
        flat = rows.flatten(0, 1)
        return torch.cat([flat, flat.new_zeros(1, *flat.shape[1:])])[first_slot]

    def where(self, where: Where) -> Where:
        """Return the `Where` of these rows, from the `Where` of the flat tokens (its rows concatenated)."""
        valid = None if self.full else self.valid
        if where.valid is not None and not self.full:
            valid = self.valid & self.gather(where.valid.flatten())
        flat = dict(placed=where.placed, objects=where.objects, cameras=where.cameras)
        labels: dict[str, Any] = {name: self.gather(t.flatten(0, 1)) for name, t in flat.items() if t is not None}
        return Where(self.gather(where.positions.flatten(0, 1)), valid=valid, **labels)


@dataclass(frozen=True, eq=False)
class Where:
    """The positions of N tokens in B rows and P dimensions. Slowest axis first: (y, x), (t, y, x); points (x, y, z).

    All tensors have B rows, or 1 row that all rows share. Positions are set to 0 where a token is invalid or unplaced,
    so that no value there can change a result.
    """

    positions: Tensor  # (B or 1, N, P) at least float32, also under autocast
    valid: Tensor | None = None  # (B, N) False = padding
    placed: Tensor | None = None  # (B, N) False = a token without a position (class token, register)
    segment: Tensor | None = None  # (B, N) sample of each token in packed rows: contiguous runs, -1 = padding
    grid: tuple[int, ...] | None = None  # the LAST prod(grid) tokens of each row form this grid, row-major
    objects: Tensor | None = None  # (B, N) object number of each token, 0 = background; a label
    # (B, N, 4, 4) projection of each token's camera: from homogeneous points of a space that all tokens share to
    # (x depth, y depth, depth, 1), with image coordinates x and y in units of the image size and 0 at its center.
    # Rigid matrices are poses without intrinsics, the identity is a token of the shared space (a LiDAR's).
    cameras: Tensor | None = None
    grids: tuple[tuple[int, ...], ...] | None = None  # `grid` of each sample of packed or padded rows

    # Facts that steer the choice of kernel. They are computed from the values once, here, because a compiled graph
    # cannot read values. They are None inside a graph and on a GPU (reading would synchronize); kernels then choose
    # conservatively. `extent`: per axis, log2 of a row's size, rounded up. `cut`: packed rows as one row per sample.
    # `only_grid`: only tokens of the grid have a position. `padding`: (B, N) of `valid`, None if all tokens are valid.
    extent: tuple[int, ...] | None = field(init=False, default=None, repr=False)
    cut: tuple[tuple[Rows, Where], ...] | None = field(init=False, default=None, repr=False)
    only_grid: bool = field(init=False, default=False, repr=False)
    padding: Tensor | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self._check()
        set_ = object.__setattr__
        if self.segment is not None:
            for name in FIELDS:  # packed rows share no tensor
                tensor = getattr(self, name)
                if tensor is not None:
                    set_(self, name, tensor.expand(self.batch, *tensor.shape[1:]))
            inside = self.segment >= 0
            set_(self, "valid", inside if self.valid is None else inside & self.valid)
        if self.valid is not None and not (_readable(self.valid) and self.valid.all()):
            set_(self, "padding", ~self.valid)
        real = self.real
        if real is not None:
            set_(self, "positions", torch.where(real[..., None], self.positions, 0.0))
        if _readable(self.positions):
            if self.segment is not None and self.valid is not None:
                set_(self, "cut", packed_rows(self))
            set_(self, "extent", _extent(self))
            if self.grid is not None:
                before = self.positions.shape[1] - math.prod(self.grid)
                free = before > 0 and (self.placed is None or bool(self.placed[:, :before].any()))
                set_(self, "only_grid", not free)

    def _check(self) -> None:
        r = self.positions
        if r.dim() != 3:
            raise ValueError(f"positions must have shape (rows, tokens, dimensions), got {tuple(r.shape)}")
        if r.dtype not in (torch.float32, torch.float64):
            raise TypeError(
                f"positions must be float32 or float64, got {r.dtype}. 16 bits cannot represent 513; subtract a "
                "reference from integer timestamps before .float()"
            )
        for name in ("valid", "placed", "segment", "objects"):
            mask = getattr(self, name)
            if mask is None:
                continue
            fits = mask.dim() == 2 and mask.shape[1] == r.shape[1]
            if not fits or (mask.shape[0] != r.shape[0] and 1 not in (mask.shape[0], r.shape[0])):
                raise ValueError(
                    f"{name} must have shape (rows, tokens) like positions {tuple(r.shape)}, got {tuple(mask.shape)}"
                )
            if name in ("valid", "placed") and mask.dtype != torch.bool:
                raise TypeError(f"{name} must be bool, got {mask.dtype}. Write {name}.bool()")
            if name in NUMBERS and (mask.is_floating_point() or mask.dtype == torch.bool):
                raise TypeError(f"{name} must be an integer tensor of {NUMBERS[name]}, got {mask.dtype}")
        cameras = self.cameras
        if cameras is not None and (cameras.shape[1:] != (r.shape[1], 4, 4) or not cameras.is_floating_point()):
            raise ValueError(
                f"cameras must be floating-point matrices (rows, tokens, 4, 4) for positions {tuple(r.shape)}, got "
                f"{cameras.dtype} {tuple(cameras.shape)}. Repeat the matrix of each camera for its tokens"
            )
        if self.grids is not None:
            self._check_grids(self.grids)
        if self.grid is None:
            return
        if self.valid is not None or self.segment is not None:
            raise ValueError(
                "grid requires rows without padding or packing, got grid together with valid or segment. Pass only one"
            )
        if len(self.grid) != r.shape[2] or math.prod(self.grid) > r.shape[1]:
            raise ValueError(
                f"grid must have one size per axis and at most N cells for positions {tuple(r.shape)}, got {self.grid}"
            )

    def _check_grids(self, grids: tuple[tuple[int, ...], ...]) -> None:
        batch, N, P = self.positions.shape
        spare = batch * N - sum(map(math.prod, grids))
        fits = len(grids) == batch if self.segment is None else spare % max(1, len(grids)) == 0
        if fits and grids and self.segment is not None and _readable(self.segment):  # else padding would be tokens
            lengths = torch.tensor([spare // len(grids) + math.prod(grid) for grid in grids])
            first = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)  # of the sample of each token
            fits = bool((self.segment.flatten()[first] == self.segment.flatten()).all() and (self.segment >= 0).all())
        if not fits or {*map(len, grids)} - {P} or spare < 0:
            raise ValueError(
                "grids must have one grid for each sample, of packed rows without padding or of padded rows, each with "
                f"a size per axis and all with equally many tokens in front, got {grids} for positions {batch, N, P}"
            )

    @property
    def batch(self) -> int:
        """The number of rows B (1 if all tensors are shared by all rows)."""
        tensors = (getattr(self, name) for name in FIELDS)
        return max(t.shape[0] for t in tensors if t is not None)

    @property
    def real(self) -> Tensor | None:
        """(B, N) True = a token with a position, neither padding nor unplaced. None if all tokens have one."""
        if self.valid is None or self.placed is None:
            return self.placed if self.valid is None else self.valid
        return self.valid & self.placed

    def runs(self) -> Tensor:
        """Return (B, N) the index, from 0 in each row, of the contiguous segment that contains the token."""
        assert self.segment is not None
        change = self.segment[:, 1:] != self.segment[:, :-1]
        return torch.nn.functional.pad(change.long().cumsum(1), (1, 0))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Where:
        labels = (self.valid, self.placed, self.segment, self.objects)
        *masks, objects = (None if label is None else label.to(device=device) for label in labels)
        positions = self.positions.to(device=device, dtype=dtype)
        cameras = None if self.cameras is None else self.cameras.to(device=device, dtype=dtype)
        return Where(positions, *masks, grid=self.grid, objects=objects, cameras=cameras, grids=self.grids)


@dataclass(frozen=True, eq=False)
class TokenSet:
    """Token features and their positions."""

    features: Tensor  # (B, N, C)
    where: Where
    modality: Tensor | None = None  # (B, N) modality index of each token, where several are joined

    def __post_init__(self) -> None:
        x, r = self.features, self.where.positions
        rows = (x.shape[0],) if self.where.segment is not None else (1, x.shape[0])  # packed rows share no tensor
        if x.dim() != 3 or x.shape[1] != r.shape[1] or self.where.batch not in rows:
            raise ValueError(
                f"features must be (rows, tokens, channels) for positions {tuple(r.shape)}, got {tuple(x.shape)}"
            )

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> TokenSet:
        modality = None if self.modality is None else self.modality.to(device=device)
        exact = dtype if dtype == torch.float64 else None  # positions stay float32 for features in 16 bit
        return TokenSet(self.features.to(device=device, dtype=dtype), self.where.to(device, exact), modality)


def join(*sets: TokenSet) -> TokenSet:
    """Concatenate token sets that share a position space, row by row.

    Tokens of the i-th set get modality i, unless every set already has a modality.
    """
    first = sets[0]
    for other in sets[1:]:
        dims = first.where.positions.shape[2], other.where.positions.shape[2]
        if dims[0] != dims[1]:
            raise ValueError(
                f"joined sets must have the same position dimensions, got {dims[0]} and {dims[1]}. "
                "Place both in one space first, for example an image plane in 3-D"
            )
        if other.features.shape[2] != first.features.shape[2]:
            raise ValueError(
                f"joined sets must have the same channels, got {first.features.shape[2]} and {other.features.shape[2]}"
            )
    if any(s.where.segment is not None for s in sets):
        raise ValueError(
            "join expects sets without segment, got packed rows. Join before packing: segments must stay contiguous"
        )
    if len({s.modality is None for s in sets}) > 1:
        raise ValueError("either all joined sets must have a modality or none, got some of each")
    batch = max(s.features.shape[0] for s in sets)

    def concat(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.expand(batch, *t.shape[1:]) for t in tensors], dim=1)

    def masks(name: str, missing: Callable[[TokenSet], Tensor]) -> Tensor | None:
        values = [getattr(s.where, name) for s in sets]
        if all(mask is None for mask in values):
            return None
        return concat([missing(s) if mask is None else mask for s, mask in zip(sets, values)])

    numbers = [torch.full_like(_all(s), i, dtype=torch.int64) for i, s in enumerate(sets)]
    modality = [number if s.modality is None else s.modality for s, number in zip(sets, numbers)]
    valid, r = masks("valid", _all), sets[0].where.positions
    where = Where(
        concat([s.where.positions for s in sets]),
        valid=valid,
        placed=masks("placed", _all),
        grid=sets[-1].where.grid if valid is None else None,  # the last tokens of a row are still that grid
        objects=masks("objects", lambda s: _all(s).long() * 0),
        cameras=masks("cameras", lambda s: torch.eye(4, dtype=r.dtype, device=r.device).expand(*_all(s).shape, 4, 4)),
    )
    return TokenSet(concat([s.features for s in sets]), where, concat(modality))


def _readable(t: Tensor) -> bool:
    """Return whether values can be read without synchronizing: not in a graph, on a device, fake or under vmap."""
    if torch.compiler.is_compiling() or t.device.type != "cpu":
        return False
    return type(t) in (Tensor, nn.Parameter) and not is_functorch_wrapped_tensor(t)


def _all(tokens: TokenSet) -> Tensor:
    return torch.ones_like(tokens.features[..., 0], dtype=torch.bool)


def packed_rows(where: Where, by_grid: bool = False) -> tuple[tuple[Rows, Where], ...]:
    """Return packed samples as rows: those of equal length together, or `by_grid` those of one grid, in `where.grids`.

    Samples of few tokens are grouped by the power of two above their length: a call of attention costs more than the
    padding. `full` rows need no mask.
    """
    groups: dict[Any, list[tuple[int, int]]] = {}
    for (start, length), grid in zip(*packed_runs(where)):
        power = -math.ceil(math.log2(length)) if length <= FEW_TOKENS else length
        key = (length, grid) if by_grid or length >= GRID_TOKENS else (power, None)
        groups.setdefault(key, []).append((start, length))
    return tuple(_group(where, tuple(spans), grid) for (_, grid), spans in groups.items())


def packed_runs(where: Where) -> tuple[list[tuple[int, int]], Sequence[tuple[int, ...] | None]]:
    """Return first token and length of each packed sample, and its grid if known; only without grids, read values."""
    segment, grids = where.segment, where.grids
    assert segment is not None
    if grids is not None:
        before = (segment.numel() - sum(map(math.prod, grids))) // max(1, len(grids))
        lengths = [before + math.prod(grid) for grid in grids]
        return list(zip(accumulate([0, *lengths]), lengths)), grids
    start = torch.ones_like(segment, dtype=torch.bool)
    start[:, 1:] = segment[:, 1:] != segment[:, :-1]
    starts = start.flatten().nonzero().squeeze(1)  # (runs,)
    lengths = torch.diff(starts, append=starts.new_tensor([segment.numel()]))
    real = segment.flatten()[starts] >= 0
    runs = list(zip(starts[real].tolist(), lengths[real].tolist()))
    return runs, [None] * len(runs)


def _group(where: Where, spans: tuple[tuple[int, int], ...], grid: tuple[int, ...] | None) -> tuple[Rows, Where]:
    """Return packed samples of one group as one row each, with their grid and, if they are equal, shared positions."""
    assert where.valid is not None
    starts, lengths = tensor_like(spans, where.valid)[:, :, None].unbind(1)  # (R, 1)
    slot = torch.arange(max(length for _, length in spans), device=starts.device)
    inside = slot < lengths  # (R, K)
    index = starts + slot * inside
    slots = inside & where.valid.flatten()[index]
    readable = _readable(where.positions)
    rows = Rows(index, slots, bool(slots.all()) if readable else where.grids is not None, spans)
    part = rows.where(where)
    if not rows.full:
        return rows, part
    equal = readable and all(bool((t == t[:1]).all()) for t in (part.positions, part.placed) if t is not None)
    placed = None if part.placed is None else part.placed[:1]
    return rows, replace(part, grid=grid, **(dict(positions=part.positions[:1], placed=placed) if equal else {}))


def _extent(where: Where) -> tuple[int, ...]:
    """Return per axis log2 of the largest row (or packed sample), rounded up: 5 for positions 0..31."""
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
    sizes = (high.amax(1) - low.amin(1)).amax(0).tolist()  # (P,)
    return tuple(math.ceil(math.log2(s)) if 1e-30 < s < math.inf else -100 if s <= 1e-30 else 1000 for s in sizes)
