"""Encodings that break a promise each, and what the contract has to say of them."""
# Broken on purpose:
# pyright: reportIncompatibleMethodOverride=false, reportAttributeAccessIssue=false, reportOperatorIssue=false

import random
from functools import partial

import numpy as np
import torch
from torch import nn

from ndformer.encodings.alibi import ALiBi
from ndformer.encodings.pape import PaPE
from ndformer.encodings.pape_directional import PaPEDirectional
from ndformer.encodings.pape_ri import PaPERI, PaPERILayer
from ndformer.encodings.rope import AxialRoPE, RoPEMixed
from ndformer.encodings.sincos import LearnableSincos, Sincos
from ndformer.framework.bias.base import Bias, PositionBias
from ndformer.framework.bias.channels import single_block
from ndformer.framework.bias.parabolas import IsotropicBias
from ndformer.framework.bias.pointwise import DistanceBias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.tokens import Where
from tests.contract.broken_values import BROKEN_VALUES


class WholeRows(Bias):
    def __init__(self, positions):
        self.positions = positions

    def rows(self, lo, hi):
        return -torch.cdist(self.positions[:, lo:hi], self.positions)[:, None]


class FlatRows(WholeRows):
    def rows(self, lo, hi):
        return super().rows(lo, hi).squeeze(0)


class NoPackedRows(ALiBi):
    def tables(self, positions, where):
        if where.segment is not None:
            raise NotImplementedError("no packed rows")
        return super().tables(positions, where)


def moved(base, move, **flags):
    """An encoding whose tables are those of moved positions."""
    tables = lambda self, positions, where: base.tables(self, move(positions), where)
    return type(f"Moved{base.__name__}", (base,), dict(tables=tables, **flags))


def alibi_with(kind):
    """ALiBi with another bias class."""
    tables = lambda self, positions, where: kind(ALiBi.tables(self, positions, where).slopes, positions)
    return type("OtherALiBi", (ALiBi,), dict(tables=tables, circular_axes=False))


def with_bias(base, bias, weight=None):
    """An encoding with another LayerEncoding.bias(self, q, k, x, state), and maybe a learned number of each head."""

    class Layer(LayerEncoding):
        def __init__(self, heads):
            super().__init__()
            if weight is not None:
                self.register_parameter(weight, nn.Parameter(torch.ones(heads)))

    Layer.bias = bias
    kind = dict(layer=lambda self, index, depth: Layer(self.heads), circular_axes=False)
    return type(f"Other{base.__name__}", (base,), kind)


def pape_ri_with(bias):
    """PaPE-RI with another LayerEncoding.bias(self, q, k, x, state)."""
    layer = type("Layer", (PaPERILayer,), dict(bias=bias))
    kind = dict(layer=lambda self, index, depth: layer(self), circular_axes=False)
    return type("OtherPaPERI", (PaPERI,), kind)


class Flipped(DistanceBias):
    def rows(self, lo, hi):
        return -super().rows(lo, hi)

    def cut(self, rows):
        return Flipped(self.slopes, self.cut_positions(rows))


class FirstRowsOnly(DistanceBias):
    def rows(self, lo, hi):
        return super().rows(0, hi - lo)


class ForgetsParts(DistanceBias):
    def parts(self):
        return {}


class PartHandlesUnplaced(DistanceBias):
    def parts(self):
        part = DistanceBias(self.slopes, torch.stack(self.axes, dim=-1))
        part.handles_unplaced = True
        return {"distance": part}


class Strided(DistanceBias):
    def __init__(self, slopes, positions):
        super().__init__(slopes, positions)
        self.axes = positions.unbind(-1)


class WrongFeatures(IsotropicBias):
    def features(self):
        q, k = super().features()
        return 1.1 * q, k


def wrong_features(self, q, k, x, state):
    right = PaPERILayer.bias(self, q, k, x, state)
    return WrongFeatures(right.alpha, state.positions, local=single_block(state.positions))


def detached(self, q, k, x, state):
    right = PaPERILayer.bias(self, q, k, x, state)
    return IsotropicBias(right.alpha.detach(), state.positions)


def half_detached(self, q, k, x, state):
    right = PaPERILayer.bias(self, q, k, x, state)
    return IsotropicBias((right.alpha + right.alpha.detach()) / 2, state.positions)


def in_the_dtype_of_q(self, q, k, x, state):
    right = PaPERILayer.bias(self, q, k, x, state)
    return IsotropicBias(right.alpha.to(q.dtype), state.positions.to(q.dtype))


class PlacesClassTokens(Sincos):
    def tables(self, positions, where):
        return super().tables(positions, Where(positions))


class MovesEveryTokenBetweenBlocks(PositionEncoding):
    def block_update(self, x, state, passed):
        return x + x.mean(2, keepdim=True) if passed == 1 else x


class HearsTheRowBetweenBlocks(PositionEncoding):
    def tables(self, positions, where):
        return where.real

    def block_update(self, x, state, passed):
        heard = x.nan_to_num().mean(1, keepdim=True)  # of other samples, too
        return x + (heard if state is None else heard * state[..., None])


class IgnoresScale(Sincos):
    def prepare(self, where):
        return self.tables(where.positions, where)


class StretchedBias(PositionBias):
    """A distance with a learned length of each head, whose root has no slope at 0."""

    def __init__(self, length, positions, size):
        super().__init__(positions)
        self.length, self.size = length, size

    def pair(self, b, h, i, j):
        length, squares = self.length[h], torch.zeros(())
        for p in range(len(self.axes)):
            squares = squares + (length * self.difference(p, b, i, j)) ** 2
        return -squares.sqrt()


class TwiceBias(DistanceBias):
    def cut(self, rows):
        return TwiceBias(self.slopes, self.cut_positions(rows))

    def rows(self, lo, hi):
        return super().rows(lo, hi) - self.slopes[:, None, None]

    def pair(self, b, h, i, j):
        return super().pair(b, h, i, j) - self.slopes[h]


class WidensTokens(Sincos):
    def embed(self, x, state):
        return x + state


class WidensQueries(AxialRoPE):
    def layer(self, index, depth):
        layer = super().layer(index, depth)
        turn = layer.qk
        layer.qk = lambda q, k, x, state: tuple(t.to(state[0].dtype) for t in turn(q, k, x, state))
        return layer


class KeepsLayers(RoPEMixed):
    def __init__(self, dim, heads, position_dims, depth):
        super().__init__(dim, heads, position_dims, depth)
        self.kept = nn.ModuleList()

    def layer(self, index, depth):
        self.kept.append(super().layer(index, depth))
        return self.kept[-1]


class HandsOutItself(ALiBi):
    circular_axes = False

    def __init__(self, dim, heads, position_dims, depth):
        super().__init__(dim, heads, position_dims, depth)
        self.only = super().layer(0, depth)

    def layer(self, index, depth):
        return self.only


class DrawsWithNumpy(RoPEMixed):
    def layer(self, index, depth):
        layer = super().layer(index, depth)
        with torch.no_grad():
            layer.frequencies += np.random.default_rng().normal()
        return layer


class DrawsUnseen(Sincos):
    def __init__(self, dim, heads, position_dims, depth):
        super().__init__(dim, heads, position_dims, depth, base=random.uniform(10, 1000))


class KeepsTheState(Sincos):
    def tables(self, positions, where):
        self.table = super().tables(positions, where)

    def embed(self, x, state):
        return super().embed(x, self.table)


class ChangesTheState(Sincos):
    def embed(self, x, state):
        return super().embed(x, state.mul_(1.1))


class ReadsValues(Sincos):
    def tables(self, positions, where):
        if positions.isnan().any():
            raise ValueError("NaN among positions")
        return super().tables(positions, where)


def round_to_bfloat16(r):
    return r.bfloat16().to(r.dtype)


def stretched(self, q, k, x, state):
    return StretchedBias(self.length.to(state.dtype), state, q.shape[:3])


def learned_twice(self, q, k, x, state):
    return TwiceBias(self.slopes.to(state.dtype), state)


def half_positions(self, q, k, x, state):
    positions = torch.stack(state.axes, dim=-1)
    return DistanceBias(state.slopes, positions.to(x.dtype).to(positions.dtype))


CountsTokens = moved(ALiBi, lambda r: torch.arange(r.shape[1], dtype=r.dtype)[None, :, None])
MovesClassTokens = moved(AxialRoPE, lambda r: r - r.mean(1, keepdim=True).round(), changes_unplaced=True)
FalselyTranslationInvariant = type("Declared", (LearnableSincos,), dict(translation_invariant=True))
FalselyCircular = type("Declared", (PaPEDirectional,), dict(circular_axes=True))
FalselyPeriodic = type("Declared", (LearnableSincos,), dict(circular_axes=True))
FalselyRotationInvariant = type("Declared", (PaPE,), dict(rotation_invariant=True))
RootAtZero = with_bias(PositionEncoding, stretched, weight="length")

BROKEN = [
    (
        moved(Sincos, lambda r: r - r.mean(1, keepdim=True), circular_axes=False),
        {"padded = packed = alone": "where.real"},
    ),
    (
        NoPackedRows,
        dict.fromkeys(
            ["padded = packed = alone", "dense = sdpa = flex", "pair = rows"], "it stops with NotImplemented"
        ),
    ),
    (alibi_with(Flipped), {"dense = sdpa = flex": "(flex,", "pair = rows": "(pair of Flipped,"}),
    (pape_ri_with(wrong_features), {"dense = sdpa = flex": "sdpa, float32,", "half precision": "times as wrong"}),
    (alibi_with(lambda slopes, positions: FlatRows(positions)), {"pair = rows": "rows(0, 7) has shape (1, 7, 7)"}),
    (alibi_with(FirstRowsOnly), {"pair = rows": "(rows(1, 3) of FirstRowsOnly"}),
    (alibi_with(ForgetsParts), {"pair = rows": "(sum of parts(),"}),
    (alibi_with(Strided), {"pair fits a GPU": "make it .contiguous()"}),
    (with_bias(PositionEncoding, learned_twice, weight="slopes"), {"pair fits a GPU": "gets a gradient 2 times"}),
    (PlacesClassTokens, {"unplaced tokens": "the embedding adds"}),
    (MovesEveryTokenBetweenBlocks, {"unplaced tokens": "the embedding adds"}),
    (HearsTheRowBetweenBlocks, {"padded = packed = alone": "padding or other samples have an effect"}),
    (moved(AxialRoPE, lambda r: r + 1), {"unplaced tokens": "q or k"}),
    (MovesClassTokens, {"unplaced tokens": "q or k"}),
    (alibi_with(PartHandlesUnplaced), {"unplaced tokens": "handles_unplaced"}),
    (CountsTokens, {"token permutation": "read the positions and not the order"}),
    (FalselyTranslationInvariant, {"translation invariance": "Set translation_invariant = False"}),
    *BROKEN_VALUES,
    (FalselyCircular, {"whole turns on circles": "differences the short way round"}),
    (partial(FalselyCircular, periods=[None, 24]), {"whole turns on circles": "differences the short way round"}),
    (FalselyPeriodic, {"whole turns on circles": "which end of the period is at 0"}),
    (FalselyRotationInvariant, {"rotation invariance": "Set rotation_invariant = False"}),
    (moved(Sincos, round_to_bfloat16), {"precision of positions": "near 0 but by 0.0e+00 near 512"}),
    (
        moved(ALiBi, round_to_bfloat16),
        {
            "precision of positions": "positions are rounded on the way",
            "translation invariance": "not rounded",
            "rotation invariance": "not rounded",
        },
    ),
    (moved(Sincos, torch.round), {"precision of positions": "Set float_positions = False"}),
    (IgnoresScale, {"position interpolation": "use the positions that tables() gets"}),
    (pape_ri_with(detached), {"gradients": "'scale' of layer 0 gets no gradient"}),
    (pape_ri_with(half_detached), {"gradients": "differs from a finite difference"}),
    (RootAtZero, {"gradients": "the gradient of 'length' of layer 0 is NaN"}),
    (pape_ri_with(in_the_dtype_of_q), {"half precision": "the bias ('distance') is bfloat16"}),
    (with_bias(ALiBi, half_positions), {"half precision": "times as wrong as those without positions"}),
    (WidensTokens, {"half precision": "embed() does not return the bfloat16"}),
    (WidensQueries, {"half precision": "qk() does not return the bfloat16"}),
    (KeepsLayers, {"layers are the caller's": "are one tensor, twice in a checkpoint"}),
    (HandsOutItself, {"layers are the caller's": "make a new one each time"}),
    (DrawsWithNumpy, {"same seed, same numbers": "'layers.0.encoding.frequencies' differs"}),
    (DrawsUnseen, {"same seed, same numbers": "have different outputs"}),
    (KeepsTheState, {"one state for all layers": "(after another batch was prepared"}),
    (ChangesTheState, {"one state for all layers": "do not change a state in place"}),
    (ReadsValues, {"torch.compile": "no .item()"}),
]
