"""Layers of UniTR: attention that pillars and patches share, and what each of the two has of its own (post-norm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention
from ndformer.framework.attention_maps import AttentionMaps, RowCutter
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.tokens import Rows, Where
from ndformer.framework.transformer import MLP


class Part(NamedTuple):
    """Sets that are attended to in one call, and where their tokens are, as the encoding is told."""

    rows: Rows
    where: Where
    state: Any
    encoding: LayerEncoding


@dataclass(frozen=True, eq=False)
class Sets:
    """All sets of a layer, with each token in one slot of them."""

    parts: Sequence[Part]
    home: Tensor  # (T,) the slot of each token, of all of them in a row
    places: Tensor  # (T, 7)

    @classmethod
    def of(cls, parts: Sequence[Part], places: Tensor) -> Sets:
        none = len(places)  # where empty slots say that they are at home
        index = [part.rows.index.masked_fill(~part.rows.valid, none).flatten() for part in parts]
        slots = torch.cat([places.new_zeros(0, dtype=torch.int64), *index])
        home = torch.zeros(none + 1, dtype=torch.int64, device=places.device)
        home.scatter_(0, slots, torch.arange(len(slots), device=places.device))
        return cls(parts, home[:-1], places)

    def mixed(self, attention: Attention, x: Tensor) -> Tensor:
        """(T, C) -> (T, C): attention of each token to those of its set."""
        if not self.parts:
            return x
        each = [attention(part.rows.gather(x), part.where, part.state, part.encoding) for part in self.parts]
        return torch.cat([one.flatten(0, 1) for one in each])[self.home]


class Own(nn.Module):
    """A modality's own part of a layer: norm, feed-forward, norm."""

    def __init__(self, dim: int, ratio: float) -> None:
        super().__init__()
        self.norm1, self.mlp, self.norm2 = nn.LayerNorm(dim), MLP(dim, ratio), nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        return self.norm2(x + self.mlp(x))


class Layer(RowCutter):
    def __init__(self, dim: int, heads: int, ratio: float, backend: str) -> None:
        super().__init__()
        self.attention = Attention(dim, heads, backend=backend)
        self.own = nn.ModuleList(Own(dim, ratio) for _ in range(2))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, sets: Sets, pillars: int) -> Tensor:
        """(T, dim) -> (T, dim), of which the first are pillars."""
        return self.norm(apart(self.own, x + sets.mixed(self.attention, x), pillars) + x)

    def sample_positions(self, maps: AttentionMaps, *args: Any) -> Tensor:
        sets: Sets = args[1]
        (rows,) = (part.rows for part in sets.parts if part.where is maps.where)
        return rows.gather(sets.places)


class Block(nn.Module):
    """Two layers, the second in windows moved by half, and a residual around both."""

    def __init__(self, dim: int, heads: int, ratio: float, backend: str) -> None:
        super().__init__()
        self.layers = cast(list[Layer], nn.ModuleList(Layer(dim, heads, ratio, backend) for _ in range(2)))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, x: Tensor, sets: list[Sets], pillars: int) -> Tensor:
        y = x
        for layer, own in zip(self.layers, sets):
            y = layer(y, own, pillars)
        return apart(self.norms, y + x, pillars)


def apart(parts: nn.ModuleList, x: Tensor, pillars: int) -> Tensor:
    """The first of two modules on the pillars, the second on the patches."""
    return torch.cat([part(rows) for part, rows in zip(parts, x.split([pillars, len(x) - pillars]))])
