"""A transformer in the frames of a finite rotation group, whose output is invariant to its rotations (Islam 2025)."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.attention_maps import Frames
from ndformer.framework.encoding.base import check_choice
from ndformer.framework.registry import BACKBONES
from ndformer.framework.registry.ranges import Dims, Few, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

FRAMES = dict(square=2, tetrahedron=3, octahedron=3)  # name -> position dimensions


@BACKBONES.register_module()
class PlatonicTransformer(Transformer, Frames):
    """A transformer whose channels are divided among the frames of a rotation group, with weights shared by all frames.

    Frame g attends with positions rotated by g^-1. Linear layers mix frames by a weight that depends only on g^-1 h, so
    a rotation of all positions by an element of the group permutes the frames (Platonic transformer). Tokens enter all
    frames alike, and the mean over the frames leaves them: outputs are invariant. Any encoding of free positions can be
    used; the paper has RoPE. Linear layers have as many multiplications as those of a Transformer of `dim` channels,
    and 1/|G| of its weights.

    `frames`: 'square', 4 rotations of 2 dimensions; 'tetrahedron' and 'octahedron', 12 and 24 rotations of 3. `dim` and
    `heads` are totals of all frames. Other options are those of Transformer, but for `window`. Stochastic depth drops
    frames separately.

    Paper: arXiv:2510.03511.
    """

    def __init__(
        self,
        dim: Width,
        depth: Few,
        heads: Few,
        position_dims: Dims,
        encoding: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        frames: Literal["square", "tetrahedron", "octahedron"] = "octahedron",
        **kwargs: Any,
    ) -> None:
        check_choice("frames", frames, list(FRAMES))
        rotations = rotation_group(frames)  # (G, P, P)
        G, dims, _ = rotations.shape
        if position_dims != dims:
            fitting = " or ".join(repr(name) for name, of in FRAMES.items() if of == position_dims)
            raise ValueError(
                f"frames='{frames}' rotates {dims} position dimensions, got {position_dims}. "
                + (f"Set frames={fitting}" if fitting else "There are frames for 2 and 3")
            )
        if dim % G or heads % G:
            raise ValueError(
                f"dim and heads must be divisible by the {G} frames of '{frames}', got dim={dim} and heads={heads}. "
                f"Set dim={math.ceil(dim / G) * G}, heads={math.ceil(heads / G) * G}"
            )
        if kwargs.get("window") is not None:
            raise ValueError(
                f"PlatonicTransformer must have no window, got {kwargs['window']}: turned positions are no grid. Use "
                "Transformer"
            )
        super().__init__(dim // G, depth, heads // G, position_dims, encoding, **kwargs)
        first = self._find_encoding(None)[0]
        if first.needs_grid:
            raise ValueError(
                f"PlatonicTransformer expects an encoding of free positions, got {type(first).__name__}: turned "
                f"positions are no grid. Use {first.instead}"
            )
        if any(first.periods):
            raise ValueError(f"frames='{frames}' rotates axes into each other, got circular ones. Use Transformer")
        self.dim, self.frames = dim, G
        self.register_buffer("rotations", rotations, persistent=False)
        table = differences(rotations)
        for block in cast(Any, self.blocks):
            attention, mlp = block.attention, block.mlp
            if attention.encoding.changes_qk_input:
                raise ValueError(
                    "PlatonicTransformer projects q, k and v from one input, got "
                    f"{type(self.encoding).__name__}, which adds to that of q and k. Use AxialRoPE or PaPE"
                )
            attention.qkv, attention.proj = GroupLinear(attention.qkv, table), GroupLinear(attention.proj, table)
            mlp[0], mlp[2] = GroupLinear(mlp[0], table), GroupLinear(mlp[2], table)

    def forward(self, tokens: TokenSet, space: str | None = None) -> TokenSet:
        self._find_encoding(space)[0].refuse_cameras(tokens.where, type(self).__name__)
        x, G = tokens.features, self.frames
        x = x.unflatten(-1, (G, -1)).mean(-2).repeat_interleave(G, 0)  # (B G, N, dim / G)
        rows = super().forward(TokenSet(x, self._in_frames(tokens.where, len(tokens.features))), space)
        y = rows.features.unflatten(0, (-1, G)).mean(1)  # (B, N, dim / G)
        return TokenSet(y.repeat(1, 1, G), tokens.where, tokens.modality)

    def _in_frames(self, where: Where, batch: int) -> Where:
        """Return the positions in each frame as rows of their own (B G, N, P), frame by frame within a sample."""
        inverse = cast(Tensor, self.rotations).mT.to(where.positions)
        with without_autocast(where.positions):  # 16 bits cannot represent positions
            r = torch.einsum("gpq,bnq->bgnp", inverse, where.positions).expand(batch, -1, -1, -1)
        labels = where.valid, where.placed, where.segment, where.objects
        rows = (None if t is None else t.expand(batch, -1).repeat_interleave(self.frames, 0) for t in labels)
        valid, placed, segment, objects = rows
        return Where(r.flatten(0, 1), valid, placed, segment, objects=objects)


class GroupLinear(nn.Module):
    """A linear layer of rows (B G, N, channels) that mixes the frames of a sample by weights of g^-1 h."""

    def __init__(self, layer: nn.Module, table: Tensor) -> None:
        """`layer` has the channels of one frame; `table` (G, G) has the index of g^-1 h."""
        super().__init__()
        (out, channels), G = cast(Tensor, layer.weight).shape, len(table)
        bound = (G * channels) ** -0.5  # as nn.Linear of all frames
        self.weight = nn.Parameter(torch.empty(G, out, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out).uniform_(-bound, bound))
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        G, out, channels = self.weight.shape
        weight = self.weight[cast(Tensor, self.table)].transpose(1, 2).reshape(G * out, G * channels)
        x = x.unflatten(0, (-1, G)).transpose(1, 2).flatten(2)  # (B, N, G channels)
        y = F.linear(x, weight, self.bias.repeat(G))
        return y.unflatten(-1, (G, out)).transpose(1, 2).flatten(0, 1)


def rotation_group(frames: str) -> Tensor:
    """Return the rotations (G, P, P) of a square, a tetrahedron or an octahedron: signed permutations of the axes."""
    dims = FRAMES[frames]
    rotations = []
    for order, signs in itertools.product(
        itertools.permutations(range(dims)), itertools.product((1.0, -1.0), repeat=dims)
    ):
        rotation = torch.diag(torch.tensor(signs, dtype=torch.float64))[list(order)]
        is_even = torch.linalg.det(rotation.abs()) > 0  # of the order: a tetrahedron has only these
        if torch.linalg.det(rotation) > 0 and (is_even or frames != "tetrahedron"):
            rotations.append(rotation)
    return torch.stack(rotations)


def differences(rotations: Tensor) -> Tensor:
    """Return (G, G) the index of g^-1 h in a group of rotations."""
    products = torch.einsum("gqp,hqr->ghpr", rotations, rotations)
    return (products[:, :, None] == rotations).all(-1).all(-1).long().argmax(-1)
