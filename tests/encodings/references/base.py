"""An encoding in slow float64, for one sample: the hooks that a reference writes from its paper's formulas.

It shares nothing with the library but the values of the weights.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class Reference:
    """By itself: NoPE. Every head is computed by itself, over all pairs of the n tokens of one sample."""

    unplaced = False  # whether bias() has values for pairs with a token that has no place
    pointwise = True  # whether the library's bias is a function of two places: else it has no flex

    def __init__(
        self, model: Any, weights: dict[str, Tensor], r: Tensor, placed: Tensor, grid: tuple[int, ...] | None
    ) -> None:
        """`weights`: the layer's by name ("encoding.wp"), the encoding's own as "shared.NAME". r (n, P), placed (n,)"""
        self.cfg, self.heads, self.width, self.dims = model.cfg, model.heads, model.width, model.dims
        self.dim, self.index, self.depth = model.dim, model.index, model.depth
        self.model, self.weights, self.placed, self.grid = model, weights, placed, grid
        self.cameras: Tensor | None = None  # (n, 4, 4)
        scale = torch.as_tensor(self.cfg.get("position_scale", 1.0), dtype=r.dtype)
        self.r = torch.where(placed[:, None], r, 0.0) * scale
        self.dr = self.r - self.r[:, None]  # (n, n, P): r_j - r_i at [i, j]
        self.lengths: list[float | None] = [None] * self.dims  # of circular axes
        if self.cfg.get("periods"):
            scales = scale.expand(self.dims).tolist()
            self.lengths = [L and L * s for L, s in zip(self.cfg["periods"], scales)]
            for p, length in enumerate(self.lengths):
                if length:  # the shortest of the ways that make up to 200 turns
                    ways = torch.stack([self.dr[..., p] + k * length for k in range(-200, 201)])
                    self.dr[..., p] = ways.gather(0, ways.abs().argmin(0, keepdim=True))[0]

    def turns(self, w: float, p: int) -> float:
        """The frequency w along axis p, as whole turns where the axis is a circle."""
        length = self.lengths[p]
        return w if not length else max(1, round(w * length / (2 * math.pi))) * 2 * math.pi / length

    def embed(self, x: Tensor) -> Tensor:
        """(n, D) -> (n, D), before the first block, and between blocks before this layer's."""
        return x

    def input(self, x: Tensor) -> Tensor:
        """(n, D) -> (n, D): what q, k and v are made from."""
        return x

    def asked(self, x: Tensor) -> Tensor:
        """(n, D) -> (n, D): what q and k are made from, where v is made from x, which is as after input()."""
        return x

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        """(n, n): q_i k_j of head h, with turns, before it is divided by sqrt(width); q, k (n, width)."""
        return q @ k.T

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """(n, n): what is added to the scaled logits of head h; x (n, D) as after input()."""
        return torch.zeros(len(x), len(x), dtype=x.dtype)

    def collected(self, h: int, weights: Tensor, v: Tensor) -> Tensor:
        """(n, n), (n, width) -> (n, width): what head h makes of the values, with the attention weights."""
        return weights @ v

    def layer(self, x: Tensor) -> Tensor:
        """(n, D) -> (n, D): embed(), then one layer of attention."""
        x = self.input(self.embed(x))
        parts = zip(
            (self.asked(x), self.asked(x), x), self.weights["qkv.weight"].chunk(3), self.weights["qkv.bias"].chunk(3)
        )
        q, k, v = ((y @ weight.T + bias).view(len(x), self.heads, self.width) for y, weight, bias in parts)  # (n, H, h)
        both = self.placed & self.placed[:, None]
        outputs = []
        for h in range(self.heads):
            added = self.bias(h, x, q[:, h], k[:, h])
            added = added if self.unplaced else torch.where(both, added, 0.0)
            logits = self.content(h, q[:, h], k[:, h]) / math.sqrt(self.width) + added
            outputs.append(self.collected(h, logits.softmax(1), v[:, h]))
        return torch.cat(outputs, dim=1) @ self.weights["proj.weight"].T + self.weights["proj.bias"]
