"""Attention written out pair by pair, and the layouts of tokens and kinds of biases that backends are tested on."""

import math
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, SumBias
from ndformer.framework.bias.channels import single_block
from ndformer.framework.bias.parabolas import IsotropicBias, QuadraticBias
from ndformer.framework.bias.pointwise import ConeBias, DistanceBias, TableBias
from ndformer.framework.tokens import Where

HEADS, WIDTH, DIMS = 2, 8, 2


def places(layout: str, dtype: torch.dtype) -> Where:
    """Three rows; whatever stands in padding and in unplaced tokens is NaN."""
    B, N = 3, 1 if layout == "one token" else 16
    n = torch.arange(N).expand(B, N)
    masks: dict[str, Any] = {}
    if layout == "padded":  # one row of nothing but padding, one of one token
        masks["valid"] = torch.stack([n[0] < 9, n[0] < 0, n[0] == 3])
    if layout == "unplaced":
        masks["placed"] = torch.stack([n[0] > 0, n[0] < 0, n[0] % 3 == 0])
    if layout == "padded, unplaced":
        masks["valid"], masks["placed"] = n < torch.tensor([[16], [5], [1]]), (n > 0) & (n != 4)
    if layout.startswith("packed"):  # samples of 1, 2 and 13 tokens; equal numbers apart are not one sample
        masks["segment"] = torch.tensor(
            [[0] + [1] * 2 + [0] * 13, [7] * 13 + [8] * 2 + [-1], [-1] * 3 + [3] * 10 + [-1] + [3] * 2]
        )
        if layout == "packed, padded, unplaced":
            masks["valid"], masks["placed"] = (n != 5) & (n != 1), n % 4 != 2
    positions = torch.randint(0, 7, (1 if layout == "shared" else B, N, DIMS)).to(dtype)
    if layout == "shared":
        masks["valid"] = n < torch.tensor([[16], [7], [12]])
    hidden = torch.zeros(B, N, dtype=torch.bool)
    for name, mask in masks.items():
        hidden |= mask < 0 if name == "segment" else ~mask
    if layout != "shared":
        positions = positions.masked_fill(hidden[..., None], math.nan)
    return Where(positions, **masks)


LAYOUTS = [
    "plain",
    "one token",
    "shared",
    "padded",
    "unplaced",
    "padded, unplaced",
    "packed",
    "packed, padded, unplaced",
]


class RowsOnly(Bias):
    """What needs a whole row, as CoPE does: no pair(), no cut()."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def rows(self, lo: int, hi: int) -> Tensor:
        return self.values[:, :, lo:hi]


class PairOnly(Bias):
    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.size = (values.shape[0], values.shape[1], values.shape[2])

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.values[b, h, i, j]


Made = tuple[Bias | None, Tensor, list[Tensor]]  # the bias, its values by hand (B, H, N, N), what is learned


def make(kind: str, where: Where, dtype: torch.dtype) -> Made:
    r = where.positions
    B, N = 3, r.shape[1]
    dr = (r[:, None, :, :] - r[:, :, None, :])[:, None].expand(B, 1, N, N, DIMS)  # r_j - r_i
    size = dr.square().sum(-1).sqrt()

    def learned(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=dtype).mul(0.3).requires_grad_()

    slopes = torch.tensor([0.5, 0.1], dtype=dtype)
    distance = -slopes[:, None, None] * size
    if kind == "none":
        return None, torch.zeros(B, HEADS, N, N, dtype=dtype), []
    if kind == "distance":
        return DistanceBias(slopes, r), distance, []
    if kind == "cone":
        u, cosines = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=dtype), torch.tensor([0.0, -1.0], dtype=dtype)
        inside = torch.einsum("hp,bxijp->bhij", u, dr) >= cosines[:, None, None] * size - 1e-6
        return ConeBias(u, cosines, r), torch.zeros_like(inside, dtype=dtype).masked_fill(~inside, -math.inf), []
    steps = [dr[..., p].clamp(-limit, limit).long() + limit for p, limit in enumerate((3, 2))]
    head = torch.arange(HEADS)[:, None, None]
    if kind == "tables":
        tables = [learned(HEADS, 7), learned(HEADS, 5)]
        return TableBias(tables, (3, 2), r), tables[0][head, steps[0]] + tables[1][head, steps[1]], tables
    if kind == "joint table":
        table = learned(HEADS, 35)
        return TableBias([table], (3, 2), r), table[head, steps[0] * 5 + steps[1]], [table]
    local = single_block(r) if kind.endswith(("features", "distance", "direction")) else None
    if kind.startswith("quadratic"):
        M, c = [learned(B, HEADS, N) for _ in range(3)], [learned(B, HEADS, N) for _ in range(2)]
        full = torch.stack([torch.stack([M[0], M[1]], -1), torch.stack([M[1], M[2]], -1)], -1)  # (B, H, N, 2, 2)
        second = torch.einsum("bhipq,bxijp,bxijq->bhij", full, dr, dr)
        first = torch.einsum("bhip,bxijp->bhij", torch.stack(c, -1), dr)
        if kind == "quadratic, distance":
            return QuadraticBias(M, None, r, local), second, M
        if kind == "quadratic, direction":
            return QuadraticBias(None, c, r, local), first, c
        return QuadraticBias(M, c, r, local), second + first, [*M, *c]
    alpha = learned(B, HEADS, N)
    if kind.startswith("isotropic"):
        return IsotropicBias(alpha, r, local), alpha[..., None] * size**2, [alpha]
    if kind == "sum":
        both = SumBias([DistanceBias(slopes, r), IsotropicBias(alpha, r, local=single_block(r))])
        return both, distance + alpha[..., None] * size**2, [alpha]
    values = learned(B, HEADS, N, N)
    return (RowsOnly if kind == "rows only" else PairOnly)(values), values, [values]


KINDS = ["none", "distance", "cone", "tables", "joint table", "sum", "rows only", "pair only"]
KINDS += ["quadratic", "quadratic, features", "quadratic, distance", "quadratic, direction"]
KINDS += ["isotropic", "isotropic, features"]


def by_hand(q: Tensor, k: Tensor, v: Tensor, where: Where, values: Tensor) -> Tensor:
    """Sums of exp(logit) over the keys of each query's own run, and nothing more clever."""
    B, _, N, width = q.shape
    everything = torch.ones(B, N, dtype=torch.bool)
    valid = everything if where.valid is None else where.valid
    placed = everything if where.placed is None else where.placed
    bias = torch.where((placed[:, :, None] & placed[:, None, :])[:, None], values, 0)
    sees = visible(where, B) & valid[:, :, None]
    weights = torch.exp(torch.einsum("bhic,bhjc->bhij", q, k) / math.sqrt(width) + bias) * sees[:, None]
    total = weights.sum(-1, keepdim=True)
    return torch.einsum("bhij,bhjc->bhic", weights, v) / total.where(total > 0, 1)


def visible(where: Where, rows: int) -> Tensor:
    """(B, i, j): the key is valid and of the query's own run."""
    N = where.positions.shape[1]
    sees = torch.ones(rows, N, N, dtype=torch.bool)
    if where.segment is not None:
        sees = torch.tensor([[[same_run(s, i, j) for j in range(N)] for i in range(N)] for s in where.segment])
    return sees if where.valid is None else sees & where.valid[:, None, :]


def same_run(segment: Tensor, i: int, j: int) -> bool:
    return len(set(segment[min(i, j) : max(i, j) + 1].tolist())) == 1
