"""Where a model looks, and why: what its attention layers were given in a forward pass, and what they make of it.

with looking(model) as looks:              # any model with an Attention in it, of any modality
    model(inputs)
looks[3].terms()                           # semantic, distance, direction ... of the fourth layer, (B, H, N, N) each
looks[3].attention()                       # the softmax of their sum
on_grid(looks[3].attention()[0, :, 0], looks[3].where)     # of the first token, over the picture: (H, rows, columns)
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention, Vectors
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.system.hooks import forward_hooks
from ndformer.framework.tokens import Where

TAU = 0.8  # of a query's attention: the keys that z-scores are taken over


@dataclass(frozen=True, eq=False)
class Look:
    """One call of an attention layer: the layer and its arguments."""

    layer: Attention
    x: Tensor
    where: Where
    state: Any = None
    encoding: LayerEncoding | None = None
    cut: tuple["Cutting", tuple[Any, ...]] | None = None  # who made rows of the tokens, and what it was called with

    @property
    def places(self) -> Tensor:
        """(R, K, P) where its tokens are in the sample; NaN along an axis: everywhere on it."""
        return self.where.positions if self.cut is None else self.cut[0].places(self, *self.cut[1])

    @property
    def exact(self) -> Tensor:
        """x in the precision of the layer's weights, whatever autocast made of it."""
        return self.x.to(self.layer.qkv.weight.dtype)

    @torch.no_grad()
    def terms(self) -> dict[str, Tensor]:
        """The logits by what they come from, (B, H, N, N) each; `mask` is (B, 1, N, N), and there only if needed."""
        return self.layer.logits(self.exact, self.where, self.state, self.encoding, parts=True)

    @torch.no_grad()
    def vectors(self) -> Vectors:
        """What the terms are computed from: queries, keys and the bias."""
        return self.layer.vectors(self.x, self.where, self.state, self.encoding)

    def attention(self) -> Tensor:
        """(B, H, N, N): how much of each key a query takes; a row sums to 1."""
        return sum(self.terms().values(), torch.zeros(())).softmax(-1)


class Cutting(nn.Module):
    """A module that makes rows of its own of tokens, windows or moments, for the attention layers in it."""

    def places(self, look: Look, *given: Any) -> Tensor:
        """Where the tokens of a look at one of its layers are, as Look.places; `given` is what it was called with."""
        raise NotImplementedError


@contextmanager
def looking(model: nn.Module) -> Iterator[list[Look]]:
    """A list that fills up, in the order of their calls, with what the attention layers of `model` are given.

    Calls from other threads or asyncio tasks are not in it: several may look at one model at once.
    """
    looks: list[Look] = []
    cutting = [module for module in model.modules() if isinstance(module, Cutting)]
    owners = {inner: outer for outer in cutting for inner in outer.modules()}  # the innermost comes last
    called: dict[nn.Module, tuple[Any, ...]] = {}

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        called[module] = args

    def note(layer: Attention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        owner = owners.get(layer)
        looks.append(Look(layer, *args, **kwargs, cut=None if owner is None else (owner, called[owner])))

    hooks: dict[nn.Module, Callable[..., None]] = dict.fromkeys(cutting, enter)
    hooks |= {module: note for module in model.modules() if isinstance(module, Attention)}
    with forward_hooks(hooks):
        yield looks


def on_grid(values: Tensor, where: Where) -> Tensor:
    """(..., N) values of keys -> (..., *grid), without the tokens before the grid (class, registers)."""
    if where.grid is None:
        raise ValueError("these tokens are on no grid: draw the values at where.positions")
    return values[..., -math.prod(where.grid) :].unflatten(-1, where.grid)


@torch.no_grad()
def z_scores(look: Look, tau: float = TAU) -> Tensor:
    """(H,): whether heads go by positions, above 0, or by semantics, below (PaPE, equation 16), over the fewest keys of
    each query that have a share `tau` of its attention. Positions are all terms that an encoding adds to q k'."""
    terms = {name: term.double() for name, term in look.terms().items()}
    semantic, mask = terms.pop("semantic"), terms.pop("mask", torch.zeros((), dtype=torch.float64))
    positional = sum(terms.values(), torch.zeros_like(semantic))
    logits = semantic + positional + mask
    total = logits.logsumexp(-1, keepdim=True)  # log of gamma
    share, order = (logits - total).exp().sort(dim=-1, descending=True)
    chosen = share.cumsum(-1) - share < tau
    if look.where.valid is not None:
        chosen = chosen & look.where.valid[:, None, :, None]
    scores = (positional - total).exp() - (semantic - total).exp()
    heads = scores.gather(-1, order).masked_fill(~chosen, 0).transpose(0, 1).flatten(1)
    return heads.sum(1) / chosen.transpose(0, 1).flatten(1).sum(1)
