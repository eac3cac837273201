"""Where a model looks, and why: what its attention layers were given in a forward pass, and what they make of it.

with looking(model) as looks:              # any model with an Attention in it, of any modality
    model(inputs)
looks[3].terms()                           # semantic, distance, direction ... of the fourth layer, (B, H, N, N) each
looks[3].attention()                       # the softmax of their sum
on_grid(looks[3].attention()[0, :, 0], looks[3].where)     # of the first token, over the picture: (H, rows, columns)
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention, Vectors
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.tokens import Where


@dataclass(frozen=True, eq=False)
class Look:
    """One call of an attention layer: the layer and its arguments."""

    layer: Attention
    x: Tensor
    where: Where
    state: Any = None
    encoding: LayerEncoding | None = None

    @torch.no_grad()
    def terms(self) -> dict[str, Tensor]:
        """The logits by what they come from, (B, H, N, N) each; `mask` is (B, 1, N, N), and there only if needed."""
        return self.layer.logits(self.x, self.where, self.state, self.encoding, parts=True)

    @torch.no_grad()
    def vectors(self) -> Vectors:
        """What the terms are computed from: queries, keys and the bias."""
        return self.layer.vectors(self.x, self.where, self.state, self.encoding)

    def attention(self) -> Tensor:
        """(B, H, N, N): how much of each key a query takes; a row sums to 1."""
        return sum(self.terms().values(), torch.zeros(())).softmax(-1)


@contextmanager
def looking(model: nn.Module) -> Iterator[list[Look]]:
    """A list that fills up, in the order of their calls, with what the attention layers of `model` are given."""
    looks: list[Look] = []

    def note(layer: Attention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        looks.append(Look(layer, *args, **kwargs))

    layers = [module for module in model.modules() if isinstance(module, Attention)]
    hooks = [layer.register_forward_pre_hook(note, with_kwargs=True) for layer in layers]
    try:
        yield looks
    finally:
        for hook in hooks:
            hook.remove()


def on_grid(values: Tensor, where: Where) -> Tensor:
    """(..., N) values of keys -> (..., *grid), without the tokens before the grid (class, registers)."""
    if where.grid is None:
        raise ValueError("these tokens are on no grid: draw the values at where.positions")
    return values[..., -math.prod(where.grid) :].unflatten(-1, where.grid)
