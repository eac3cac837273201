"""Layers of UniTR: attention that pillars and patches share, and what each of the two has of its own (post-norm)."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention
from ndformer.framework.transformer import MLP

Mix = Callable[[Attention, Tensor], Tensor]  # attention within the sets of a layer: (T, C) -> (T, C)


class Own(nn.Module):
    """A modality's own part of a layer: norm, feed-forward, norm."""

    def __init__(self, dim: int, ratio: float) -> None:
        super().__init__()
        self.norm1, self.mlp, self.norm2 = nn.LayerNorm(dim), MLP(dim, ratio), nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        return self.norm2(x + self.mlp(x))


class Layer(nn.Module):
    def __init__(self, dim: int, heads: int, ratio: float, backend: str) -> None:
        super().__init__()
        self.attention = Attention(dim, heads, backend=backend)
        self.own = nn.ModuleList(Own(dim, ratio) for _ in range(2))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, mix: Mix, pillars: int) -> Tensor:
        """(T, dim) -> (T, dim), of which the first are pillars."""
        return self.norm(apart(self.own, x + mix(self.attention, x), pillars) + x)


class Block(nn.Module):
    """Two layers, the second in windows moved by half, and a residual around both."""

    def __init__(self, dim: int, heads: int, ratio: float, backend: str) -> None:
        super().__init__()
        self.layers = cast(list[Layer], nn.ModuleList(Layer(dim, heads, ratio, backend) for _ in range(2)))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, x: Tensor, mixes: list[Mix], pillars: int) -> Tensor:
        y = x
        for layer, mix in zip(self.layers, mixes):
            y = layer(y, mix, pillars)
        return apart(self.norms, y + x, pillars)


def apart(parts: nn.ModuleList, x: Tensor, pillars: int) -> Tensor:
    """The first of two modules on the pillars, the second on the patches."""
    return torch.cat([part(rows) for part, rows in zip(parts, x.split([pillars, len(x) - pillars]))])
