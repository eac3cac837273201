"""What a host model's blocks are not told: where the tokens of the batch under way are (side channel, forward hooks).

Everything here can be copied and pickled with the model that it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn

from ndformer.framework.adapter import ClassPosition
from ndformer.framework.attention import attend, build_encoding
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.composed import class_place
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.tokens import Where

Named = str | dict[str, Any] | list[dict[str, Any]]


class Place:
    """Of the batch under way. Layers share it, and a copy begins with none."""

    where: Where
    state: Any

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Positions(nn.Module):
    """An encoding of a model of images, `prefix` tokens of which come before the patches: class token and registers.

    `class_at` places these tokens as the adapters of ndformer do: 'centre' at the mean of the patches' positions,
    'origin' at 0, 'nowhere' without a position, 'auto' where the encoding uses them best.
    """

    def __init__(
        self, encoding: Named, dim: int, heads: int, depth: int, prefix: int, class_at: ClassPosition = "auto"
    ) -> None:
        super().__init__()
        if class_at not in get_args(ClassPosition):
            raise ValueError(f"class_at is one of {', '.join(get_args(ClassPosition))}, got {class_at!r}")
        named = parse_encoding(encoding) if isinstance(encoding, str) else encoding
        self.encoding = build_encoding(named, dim=dim, heads=heads, position_dims=2, depth=depth)
        self.prefix, self.place = prefix, Place()
        self.class_at = class_place(named) if class_at == "auto" else class_at

    def enter(self, rows: int, columns: int, device: torch.device) -> None:
        """A batch of images of so many patches begins."""
        axes = (torch.arange(count, dtype=torch.float32, device=device) for count in (rows, columns))
        patches = torch.cartesian_prod(*axes)  # (rows columns, 2)
        middle = patches.mean(0) if self.class_at == "centre" else patches.new_zeros(2)
        positions = torch.cat([middle.expand(self.prefix, -1), patches])[None]  # (1, N, 2)
        placed = None
        if self.prefix and self.class_at == "nowhere":
            placed = torch.arange(positions.shape[1], device=device)[None] >= self.prefix
        self.place.where = Where(positions, placed=placed, grid=(rows, columns))
        self.place.state = self.encoding.prepare(self.place.where)

    def embed(self, x: Tensor) -> Tensor:
        """(B, N, dim), before the first block."""
        return self.encoding.block_update(self.encoding.embed(x, self.place.state), self.place.state, 0)

    def register_block_updates(self, blocks: Sequence[nn.Module]) -> None:
        """What the encoding does between blocks, done by them."""
        if self.encoding.has_block_update:
            for i, block in enumerate(blocks, 1):
                block.register_forward_hook(_BlockUpdate(self, i))


class _BlockUpdate:
    def __init__(self, positions: Positions, passed: int) -> None:
        self.positions, self.passed = positions, passed

    def __call__(self, block: nn.Module, given: Any, x: Tensor) -> Tensor:
        return self.positions.encoding.block_update(x, self.positions.place.state, self.passed)


class Hosted(nn.Module):
    """Attention of a host, with a layer's encoding in it."""

    def __init__(self, encoding: LayerEncoding, place: Place) -> None:
        super().__init__()
        self.encoding, self.place = encoding, place

    def input(self, x: Tensor) -> Tensor:
        """What q, k and v are made from."""
        known = self.place.where.positions.shape[1]
        if x.shape[1] != known:
            raise ValueError(
                f"{x.shape[1]} tokens came to attention, and {known} have a place: what drops or adds tokens on the "
                "way is to be left out"
            )
        return self.encoding.input(x, self.place.state)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """(B, H, N, h) each, and what they were made from -> (B, N, H h)."""
        q, k = q.to(v.dtype), k.to(v.dtype)  # under autocast norms answer in float32
        q, k, bias = self.encoding(q, k, x, self.place.state)
        return attend(q, k, v, self.place.where, bias, v.shape[-1] ** -0.5).transpose(1, 2).flatten(2)


def check_dropout(rate: float) -> None:
    if rate > 0:
        raise ValueError(f"the model drops {rate:g} of its attention weights in training, which ours cannot: set 0")
