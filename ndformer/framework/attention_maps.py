"""Attention maps of a model, split into semantic and positional terms.

with record_attention(model) as maps:      # any model that contains Attention layers, of any modality
    model(inputs)
maps[3].terms()                            # semantic, distance, direction ... of the fourth layer, (B, H, N, N) each
maps[3].attention()                        # the softmax of their sum
on_grid(maps[3].attention()[0, :, 0], maps[3].where)       # the first token's attention as images (H, rows, columns)
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention, Vectors
from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.grouped import GroupedState
from ndformer.framework.kernels.masks import bias_rows
from ndformer.framework.system.hooks import forward_hooks
from ndformer.framework.tokens import Where
from ndformer.moved import old_names

TAU = 0.8  # z-scores cover the fewest keys that receive this share of a query's attention


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """One recorded call of an attention layer: the layer and its arguments."""

    layer: Attention
    x: Tensor
    where: Where
    state: Any = None
    encoding: LayerEncoding | None = None
    cut: tuple["RowCutter", tuple[Any, ...]] | None = None  # the enclosing module and its arguments

    @property
    def heads(self) -> int:
        return self.layer.heads

    @property
    def sample_positions(self) -> Tensor:
        """The positions (R, K, P) of the tokens in the sample; NaN on an axis that a token covers completely."""
        return self.where.positions if self.cut is None else self.cut[0].sample_positions(self, *self.cut[1])

    @property
    def exact(self) -> Tensor:
        """The layer's input x in the dtype of its weights, independent of autocast."""
        return self.x.to(self.layer.qkv.weight.dtype)

    @torch.no_grad()
    def terms(self) -> dict[str, Tensor]:
        """Return the terms of the logits by name, (B, H, N, N) each; `mask` (B, 1, N, N) only if keys are masked."""
        return self.layer.logits(self.exact, self.where, self.state, self.encoding, parts=True)

    @torch.no_grad()
    def vectors(self) -> Vectors:
        """Return the queries, keys and bias that the terms are computed from."""
        return self.layer.vectors(self.exact, self.where, self.state, self.encoding)

    def all_heads(self, t: Tensor) -> Tensor:
        """Return values (R, H, ...) of the layer's heads for all heads of the samples."""
        return t

    def attention(self) -> Tensor:
        """Return the attention weights (B, H, N, N); each row sums to 1."""
        return sum(self.terms().values(), torch.zeros(())).softmax(-1)


@dataclass(frozen=True, eq=False)
class FrameMaps(AttentionMaps):
    """A recorded call whose rows are the tokens of each sample in several frames: all heads of a sample together.

    `where` is that of the samples. Head h of frame g is head g * layer.heads + h.
    """

    frames: int = 1
    frame_where: Where | None = None  # the layer's argument

    @property
    def heads(self) -> int:
        return self.frames * self.layer.heads

    @torch.no_grad()
    def terms(self) -> dict[str, Tensor]:
        assert self.frame_where is not None
        terms = self.layer.logits(self.exact, self.frame_where, self.state, self.encoding, parts=True)
        return {name: t[:: self.frames] if name == "mask" else self.all_heads(t) for name, t in terms.items()}

    @torch.no_grad()
    def vectors(self) -> Vectors:
        assert self.frame_where is not None
        *each, bias = self.layer.vectors(self.exact, self.frame_where, self.state, self.encoding)
        return Vectors(*map(self.all_heads, each), bias=None if bias is None else FrameBias(bias, self))

    def all_heads(self, t: Tensor) -> Tensor:
        """Reshape (B G, H, ...) to (B, G H, ...)."""
        return t.unflatten(0, (-1, self.frames)).flatten(1, 2)


class FrameBias(Bias):
    """The bias of all frames of a sample, with the heads of FrameMaps."""

    handles_unplaced = True  # by the frames' own bias_rows()

    def __init__(self, bias: Bias, maps: FrameMaps) -> None:
        self.bias, self.maps, self.excludes, self.term = bias, maps, bias.excludes, bias.term

    def rows(self, lo: int, hi: int) -> Tensor:
        assert self.maps.frame_where is not None
        rows = bias_rows(self.bias, self.maps.frame_where, lo, hi)
        return self.maps.all_heads(rows.expand(len(self.maps.x), self.maps.layer.heads, -1, -1))

    def parts(self) -> dict[str, Bias]:
        return {name: FrameBias(part, self.maps) for name, part in self.bias.parts().items()}


class Frames(nn.Module):
    """A module whose attention layers see the tokens of each sample in several frames, as consecutive rows."""

    frames: int


class RowCutter(nn.Module):
    """A module that regroups tokens into rows (windows, frames) for the attention layers inside it."""

    def sample_positions(self, maps: AttentionMaps, *args: Any) -> Tensor:
        """Return AttentionMaps.sample_positions for a call of an inner layer; `args` are the arguments of forward()."""
        raise NotImplementedError


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[AttentionMaps]]:
    """Yield a list to which every call of an attention layer in `model` is appended, in call order.

    Only calls of the current thread or asyncio task are recorded, so several may record one model at once. While a
    compiled `model` is recorded, all compiled code of the process runs without its graphs, which skip hooks.
    """
    recorded: list[AttentionMaps] = []
    cutters = [module for module in model.modules() if isinstance(module, RowCutter | Frames)]
    owners = {inner: outer for outer in cutters for inner in outer.modules()}  # the innermost comes last
    arguments: dict[nn.Module, tuple[Any, ...]] = {}

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        arguments[module] = args

    def record(layer: Attention, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        owner = owners.get(layer)
        if any(isinstance(a, GroupedState) and a.encoding.needs_grid for a in args):
            raise ValueError(
                "attention with an encoding of grids is recorded for images of one size, got packed images or windows. "
                "Take one image, or a model without `window`"
            )
        args = tuple(a.packed_state if isinstance(a, GroupedState) else a for a in args)
        if isinstance(owner, Frames):
            x, where, *others = args
            samples = arguments[owner][0].where
            maps = FrameMaps(layer, x, samples, *others, **kwargs, frames=owner.frames, frame_where=where)
        else:
            maps = AttentionMaps(layer, *args, **kwargs, cut=None if owner is None else (owner, arguments[owner]))
        recorded.append(maps)

    hooks: dict[nn.Module, Callable[..., None]] = dict.fromkeys(cutters, enter)
    hooks |= {module: record for module in model.modules() if isinstance(module, Attention)}
    compiled = any("_orig_mod" in m._modules or m._compiled_call_impl is not None for m in model.modules())
    with forward_hooks(hooks), torch.compiler.set_stance("force_eager") if compiled else nullcontext():
        yield recorded


def on_grid(values: Tensor, where: Where) -> Tensor:
    """Reshape per-key values (..., N) to (..., *grid), dropping the tokens before the grid (class token, registers)."""
    if where.grid is None:
        raise ValueError("expected tokens on a full grid, got where.grid=None. Draw the values at where.positions")
    return values[..., -math.prod(where.grid) :].unflatten(-1, where.grid)


@torch.no_grad()
def z_scores(maps: AttentionMaps) -> Tensor:
    """Return per head (H,) whether attention is positional (above 0) or semantic (below 0); PaPE, equation 16.

    The score covers, for each query, the fewest keys that receive a share TAU of its attention. All terms that an
    encoding adds to q k' count as positional.
    """
    terms = {name: term.double() for name, term in maps.terms().items()}
    semantic, mask = terms.pop("semantic"), terms.pop("mask", torch.zeros((), dtype=torch.float64))
    positional = sum(terms.values(), torch.zeros_like(semantic))
    logits = semantic + positional + mask
    total = logits.logsumexp(-1, keepdim=True)  # log of gamma
    share, order = (logits - total).exp().sort(dim=-1, descending=True)
    chosen = share.cumsum(-1) - share < TAU
    if maps.where.valid is not None:
        chosen = chosen & maps.where.valid[:, None, :, None]
    scores = (positional - total).exp() - (semantic - total).exp()
    heads = scores.gather(-1, order).masked_fill(~chosen, 0).transpose(0, 1).flatten(1)
    return heads.sum(1) / chosen.transpose(0, 1).flatten(1).sum(1)


__getattr__ = old_names(__name__, {"Look": "AttentionMaps", "looking": "record_attention"})
