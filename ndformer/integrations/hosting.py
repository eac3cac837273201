"""Position encodings inside models of other libraries, with positions passed to attention layers by a shared object.

All classes can be copied and pickled together with their model.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ndformer.framework.adapter import ClassPosition
from ndformer.framework.attention import attend_encoded, build_encoding
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.composed import class_place
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.tokens import Where

Named = str | dict[str, Any] | list[dict[str, Any]]


class Batch(NamedTuple):
    """Positions and encoding state of a batch."""

    where: Where
    state: Any


class Place:
    """The batch that each thread is processing, shared by all layers; copies start empty.

    Threads that have entered no batch get the last one entered, unless several threads have entered batches: torch
    recomputes checkpointed layers on a GPU in a thread of its own.
    """

    def __init__(self) -> None:
        self._local = threading.local()  # torch.compile traces it, but no ContextVar
        self._last: Batch | None = None
        self._several = False  # several threads have entered batches

    def __reduce__(self) -> tuple[type[Place], tuple[()]]:
        return Place, ()

    def enter(self, batch: Batch) -> None:
        if not torch.compiler.is_compiling():
            self._several |= self._last is not getattr(self._local, "batch", None)
        self._local.batch = self._last = batch

    @property
    def batch(self) -> Batch:
        batch: Batch | None = getattr(self._local, "batch", None)
        if batch is None:
            if self._several or self._last is None:
                raise RuntimeError(
                    "the positions of a batch were expected from a call of the model in this thread, got none. Call "
                    "the model before its layers. For gradient checkpointing on a GPU in several threads, give each "
                    "thread a copy.deepcopy of the model"
                )
            return self._last
        if not torch.compiler.is_compiling():
            self._several |= batch is not self._last
        return batch

    @property
    def where(self) -> Where:
        return self.batch.where

    @property
    def state(self) -> Any:
        return self.batch.state


class Positions(nn.Module):
    """The encoding of an image model with `prefix` tokens (class token, registers) before the patches.

    `class_at` is the position of these tokens, as in ndformer's adapters: 'center' is the mean position of the patches,
    'origin' is 0, 'nowhere' is no position, 'auto' is the best choice for the encoding; circles have no other positions
    than 'nowhere'.
    """

    def __init__(
        self, encoding: Named, dim: int, heads: int, depth: int, prefix: int, class_at: ClassPosition = "auto"
    ) -> None:
        super().__init__()
        cfg = parse_encoding(encoding) if isinstance(encoding, str) else encoding
        self.encoding = build_encoding(cfg, dim=dim, heads=heads, position_dims=2, depth=depth)
        self.prefix, self.place = prefix, Place()
        self.class_at = class_place(cfg, class_at)

    def enter(self, rows: int, columns: int, device: torch.device) -> None:
        """Set the positions for a batch of images with a grid of patches, in this thread."""
        axes = (torch.arange(count, dtype=torch.float32, device=device) for count in (rows, columns))
        patches = torch.cartesian_prod(*axes)  # (rows columns, 2)
        middle = patches.mean(0) if self.class_at == "center" else patches.new_zeros(2)
        positions = torch.cat([middle.expand(self.prefix, -1), patches])[None]  # (1, N, 2)
        placed = None
        if self.prefix and self.class_at == "nowhere":
            placed = torch.arange(positions.shape[1], device=device)[None] >= self.prefix
        where = Where(positions, placed=placed, grid=(rows, columns))
        self.place.enter(Batch(where, self.encoding.prepare(where)))

    def embed(self, x: Tensor) -> Tensor:
        """Embed positions into x (B, N, dim), before the first block."""
        state = self.place.state
        return self.encoding.block_update(self.encoding.embed(x, state), state, 0)

    def register_block_updates(self, blocks: Sequence[nn.Module]) -> None:
        """Register hooks that run the encoding's block_update after each block."""
        if self.encoding.has_block_update:
            for i, block in enumerate(blocks, 1):
                block.register_forward_hook(functools.partial(_block_update, self, i))


def _block_update(positions: Positions, blocks_done: int, block: nn.Module, args: Any, x: Tensor) -> Tensor:
    return positions.encoding.block_update(x, positions.place.state, blocks_done)


class Hosted(nn.Module):
    """Base class of attention modules that replace those of a host model and apply an encoding."""

    def __init__(self, encoding: LayerEncoding, place: Place) -> None:
        super().__init__()
        if encoding.changes_qk_input:
            raise ValueError(
                "models of timm and transformers project q, k and v from one input, got an encoding that adds to that "
                "of q and k, as LearnableMLP. Use Sincos, AxialRoPE or PaPE"
            )
        self.encoding, self.place = encoding, place

    def input(self, x: Tensor) -> Tensor:
        """Return the input of the q, k and v projections."""
        expected = self.place.where.positions.shape[1]
        if x.shape[1] != expected:
            raise ValueError(
                f"attention expected {expected} tokens, got {x.shape[1]}. Disable layers that drop or add tokens"
            )
        return self.encoding.input(x, self.place.state)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """Return attention outputs (B, N, H h) from q, k, v (B, H, N, h) and their input x."""
        q, k = q.to(v.dtype), k.to(v.dtype)  # norms return float32 under autocast
        where, state = self.place.batch
        y = attend_encoded(self.encoding, q, k, v, x, where, state)
        return y.transpose(1, 2).flatten(2)


def check_dropout(rate: float) -> None:
    if rate > 0:
        raise ValueError(f"attention dropout must be 0, got {rate:g}. Set it to 0 in the config of the model")
