"""Layers of UniTR: attention shared by pillars and patches, and separate post-norm feed-forward layers for each."""

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
    """Sets of tokens for one attention call, with their positions and encoding."""

    rows: Rows
    where: Where
    state: Any
    encoding: LayerEncoding


@dataclass(frozen=True, eq=False)
class Sets:
    """All sets of a layer; each token is in one slot."""

    parts: Sequence[Part]
    home: Tensor  # (T,) the slot of each token in the concatenation of all sets
    places: Tensor  # (T, 7)

    @classmethod
    def from_parts(cls, parts: Sequence[Part], places: Tensor) -> Sets:
        padding = len(places)  # an extra entry for empty slots
        index = [part.rows.index.masked_fill(~part.rows.valid, padding).flatten() for part in parts]
        slots = torch.cat([places.new_zeros(0, dtype=torch.int64), *index])
        home = torch.zeros(padding + 1, dtype=torch.int64, device=places.device)
        home.scatter_(0, slots, torch.arange(len(slots), device=places.device))
        return cls(parts, home[:-1], places)

    def mixed(self, attention: Attention, x: Tensor) -> Tensor:
        """Return (T, C): the attention of each token to the tokens of its set."""
        if not self.parts:
            return x
        outputs = [attention(part.rows.gather(x), part.where, part.state, part.encoding) for part in self.parts]
        return torch.cat([rows.flatten(0, 1) for rows in outputs])[self.home]


class ModalityBranch(nn.Module):
    """The modality-specific part of a layer: norm, feed-forward, norm."""

    def __init__(self, dim: int, ratio: float) -> None:
        super().__init__()
        self.norm1, self.mlp, self.norm2 = nn.LayerNorm(dim), MLP(dim, ratio), nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        return self.norm2(x + self.mlp(x))


class Layer(RowCutter):
    """Attention within sets, then a feed-forward layer for each modality."""

    def __init__(self, dim: int, heads: int, ratio: float, backend: str) -> None:
        super().__init__()
        self.attention = Attention(dim, heads, backend=backend)
        self.own = nn.ModuleList(ModalityBranch(dim, ratio) for _ in range(2))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, sets: Sets, pillars: int) -> Tensor:
        """Return (T, dim) from x (T, dim), whose first `pillars` rows are pillars."""
        return self.norm(apply_split(self.own, x + sets.mixed(self.attention, x), pillars) + x)

    def sample_positions(self, maps: AttentionMaps, *args: Any) -> Tensor:
        sets: Sets = args[1]
        (rows,) = (part.rows for part in sets.parts if part.where is maps.where)
        return rows.gather(sets.places)


class Block(nn.Module):
    """Two layers, the second with windows shifted by half, and a residual connection around both."""

    def __init__(self, dim: int, heads: int, ratio: float, backend: str) -> None:
        super().__init__()
        self.layers = cast(list[Layer], nn.ModuleList(Layer(dim, heads, ratio, backend) for _ in range(2)))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, x: Tensor, sets: list[Sets], pillars: int) -> Tensor:
        y = x
        for layer, layer_sets in zip(self.layers, sets):
            y = layer(y, layer_sets, pillars)
        return apply_split(self.norms, y + x, pillars)


def apply_split(parts: nn.ModuleList, x: Tensor, pillars: int) -> Tensor:
    """Apply the first module to the pillars and the second one to the patches."""
    return torch.cat([part(rows) for part, rows in zip(parts, x.split([pillars, len(x) - pillars]))])
