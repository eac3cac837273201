"""UniTR (Wang 2023): pillars and camera patches attend to each other, within sets of a plane's windows."""

from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ndformer.framework.backbones.unitr.layers import Block, Part, Sets
from ndformer.framework.backbones.unitr.places import OWN, Flat, Plane, Windows
from ndformer.framework.backbones.unitr.sets import by_length
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.composed import ComposedLayer, build_encoding
from ndformer.framework.registry import BACKBONES
from ndformer.framework.registry.ranges import Few, Finite, Positive, Side, Width
from ndformer.framework.tokens import Rows, TokenSet, Where

Kind = Literal["own", "image", "bev"]


@BACKBONES.register_module()
class UniTR(nn.Module):
    """Tokens at (x, y, view, row, column, row off, column off), as Pillars and CameraPatches give them: all have a
    place in the bird's-eye view and one in a camera; how far off was the point that told a patch the former?

    `blocks` says where tokens meet: 'own', pillars among themselves in the bird's-eye view and the patches of each
    camera among themselves; 'image', all in the plane of a camera, around which a pillar may stand, too, by as much as
    the camera is large; 'bev', all in the bird's-eye view. Windows of `window` cells (of `cell` metres, or patches) are
    cut into sets of `size`, along y in even blocks and x in odd ones. `corner` is that of the bird's-eye view, `view`
    the rows and columns of patches of a camera.

    Each plane has an `encoding` of its own, for which tokens stand where they are in their window, as seen from its
    middle, in metres or patches, divided by `unit` (bird's-eye, camera); with `told='cells'` it is whole cells. What an
    encoding adds to tokens it adds before the first block of each plane.

    The published network has encoding=dict(type='LearnableMLP', norm='batch'), told='cells', `keep_own`: in planes that
    both share, tokens keep their place in their own as well, and patches are told what they are off; and `view_axis`:
    the camera is a third axis of the image plane, although all tokens of a set have the same.
    """

    def __init__(
        self,
        dim: Width = 128,
        heads: Few = 8,
        encoding: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        blocks: Sequence[Kind] = ("own", "image", "image", "bev"),
        corner: tuple[Finite, Finite] = (-54.0, -54.0),
        cell: Positive = 0.3,
        view: tuple[Side, Side] = (32, 88),
        window: tuple[Side, Side] = (30, 30),
        size: Width = 90,
        mlp_ratio: Positive = 2.0,
        unit: tuple[Positive, Positive] = (1.0, 1.0),
        told: Literal["places", "cells"] = "places",
        keep_own: bool = False,
        view_axis: bool = False,
        checkpointing: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.dim, self.kinds, self.whole, self.keep_own = dim, tuple(blocks), told == "cells", keep_own
        self.view_axis, self.checkpointing = view_axis, checkpointing
        wrong = sorted(set(blocks) - {"own", "image", "bev"})
        if wrong or not blocks:
            raise ValueError(f"blocks are 'own', 'image' or 'bev', one or more of them, got {wrong or 'none'}")
        bev, patch = Plane((0, 1), corner, cell), Plane((3, 4), (0.0, 0.0), views=True)
        canvas = Plane((3, 4), (-float(view[0]), -float(view[1])), views=True)
        self.planes = dict(lidar=bev, camera=patch, image=canvas, bev=bev)
        self.units = dict(lidar=cell / unit[0], camera=1 / unit[1], image=1 / unit[1], bev=cell / unit[0])
        self.windows = Windows(window, (window[0] // 2, window[1] // 2), size)
        depth = 2 * len(blocks)

        def encoding_of(dims: int) -> PositionEncoding:
            return build_encoding(encoding, dim=dim, heads=heads, position_dims=dims, depth=depth)

        named = [name for kind in blocks for name in self._names(kind)]
        self.encodings = nn.ModuleDict(
            {name: encoding_of(3 if name == "image" and view_axis else 2) for name in dict.fromkeys(named)}
        )
        first = cast(PositionEncoding, next(iter(self.encodings.values())))
        if first.needs_grid:
            raise ValueError(f"{type(first).__name__} needs tokens on a full grid: sets want {first.instead}")
        shared = nn.ModuleList(Block(dim, heads, mlp_ratio, backend) for _ in blocks)
        self.blocks = cast(list[Block], shared)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {name: self._encoding(name).layer(i, depth) for name in self._names(blocks[i // 2]) if name != "off"}
            )
            for i in range(depth)
        )
        self.off = self._encoding("off").layer(depth - 1, depth) if "off" in named else LayerEncoding()
        self.at_once = any(isinstance(part, nn.BatchNorm1d) for part in self.layers.modules())  # statistics are of all
        for name, weight in shared.named_parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
            elif "attention" in name:
                nn.init.zeros_(weight)

    def _names(self, kind: Kind) -> tuple[str, ...]:
        """The planes that are told to the layers of a block."""
        if kind == "own":
            return OWN
        return (kind, *OWN, *(["off"] if kind == "bev" else [])) if self.keep_own else (kind,)

    def _encoding(self, name: str) -> PositionEncoding:
        return cast(PositionEncoding, self.encodings[name])

    def layer_of(self, name: str) -> int:
        part, *rest = name.split(".")
        if part == "blocks":
            return 2 * int(rest[0]) + (int(rest[2]) + 1 if rest[1] == "layers" else 2)
        return int(rest[0]) + 1 if part == "layers" else 0

    def forward(self, tokens: TokenSet) -> TokenSet:
        flat = Flat.from_tokens(tokens)
        x = flat.flat(tokens.features)
        known: dict[str, Any] = {}  # planes that tokens are embedded in
        for k, (kind, block) in enumerate(zip(self.kinds, self.blocks)):
            x = self._between(x, kind, flat, known, k)
            sets = [self._sets(kind, flat, k, i) for i in range(2)]
            if self.checkpointing and torch.is_grad_enabled():
                x = cast(Tensor, checkpoint(block, x, sets, flat.pillars, use_reentrant=False))
            else:
                x = block(x, sets, flat.pillars)
        x = self._between(x, self.kinds[-1], flat, known, len(self.blocks))
        return TokenSet(flat.padded(x), tokens.where, tokens.modality)

    def _between(self, x: Tensor, kind: Kind, flat: Flat, known: dict[str, Any], passed: int) -> Tensor:
        """What encodings do to tokens that are not cut into rows: each in the planes of a block that it is for."""
        for name in OWN if kind == "own" else (kind,):
            encoding = self._encoding(name)
            new = name not in known
            if new:
                known[name] = encoding.prepare(self._uncut(name, flat))
            if new or encoding.acts_between_blocks:
                rows = flat.padded(x)
                rows = encoding.embed(rows, known[name]) if new else rows
                x = flat.flat(encoding.between_blocks(rows, known[name], passed))
        return x

    def _uncut(self, name: str, flat: Flat) -> Where:
        """All tokens of a plane, those of a sample in a row, at their places from its corner on."""
        at = self._axes(name, self.planes[name].cells(flat.places) * self.units[name])
        valid = flat.padded(torch.ones_like(at[:, :1]))[..., 0] > 0
        placed = None if name not in OWN else flat.padded(self._placed(name, flat)[:, None].to(at.dtype))[..., 0] > 0
        return Where(flat.padded(at), valid=valid, placed=placed)

    def _axes(self, name: str, at: Tensor) -> Tensor:
        """Append the camera axis to (T, 2) coordinates of the image plane, under `view_axis`.

        Windows are one camera deep, and the published code subtracts half of a depth of 0: the coordinate is 0.
        """
        return torch.cat([at, torch.zeros_like(at[:, :1])], 1) if name == "image" and self.view_axis else at

    def _placed(self, name: str, flat: Flat) -> Tensor:
        """(T,) which tokens a modality's own plane has."""
        first = torch.arange(len(flat.kept), device=flat.kept.device) < flat.pillars
        return first if name == "lidar" else ~first

    def _sets(self, kind: Kind, flat: Flat, k: int, i: int) -> Sets:
        """Those of layer i of block k, in its planes."""
        layer, major = cast(nn.ModuleDict, self.layers[2 * k + i]), 1 if k % 2 == 0 else 0
        told = {name: self._told(name, flat, i == 1) for name in self._names(kind)}
        parts = []
        for name in OWN if kind == "own" else (kind,):
            planes = [name] if kind == "own" else self._names(kind)
            for rows in self.rows(name, flat, i == 1, major):
                states, layers = [], []
                for plane in planes:
                    of = "camera" if plane == "off" else plane
                    placed = None if plane == name else rows.gather(self._placed(of, flat))
                    at = Where(rows.gather(told[plane]), valid=rows.valid, placed=placed)
                    states.append((at, self._encoding(plane).prepare(at)))
                    layers.append(self.off if plane == "off" else cast(LayerEncoding, layer[plane]))
                where, state = states[0]
                encoding = layers[0]
                if len(planes) > 1:
                    encoding, state = ComposedLayer(layers), tuple(state for _, state in states)
                parts.append(Part(rows, where, state, encoding))
        return Sets.from_parts(parts, flat.places)

    def rows(self, name: str, flat: Flat, moved: bool, major: int) -> list[Rows]:
        """The sets of a plane: without empty slots, unless all are told at once, or a GPU would wait for lengths."""
        plane, own = self.planes[name], flat.own(name)
        places, sample = flat.places[own], flat.sample[own]
        rows = self.windows.sets(plane.cells(places), plane.group(places, sample), moved, major)
        rows = Rows(rows.index + own.start, rows.valid)
        if self.at_once or places.device.type != "cpu":
            return [rows] if len(places) else []
        return by_length(rows)

    def _told(self, name: str, flat: Flat, moved: bool) -> Tensor:
        """(T, P) where tokens are, as encodings are told."""
        if name == "off":
            return flat.places[:, 5:7] * self.units["image"]
        at = self.windows.inside(self.planes[name].cells(flat.places), moved, self.whole)
        return self._axes(name, at if self.whole else at * self.units[name])
