"""UniTR (Wang 2023): attention among LiDAR pillars and camera patches, in sets within windows of a plane."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.composed import ComposedLayer, build_encoding
from ndformer.framework.registry import BACKBONES
from ndformer.framework.registry.ranges import Few, Finite, Positive, Side, Width
from ndformer.framework.registry.renamed import Renamed
from ndformer.framework.tokens import Rows, TokenSet, Where
from ndformer.modalities.driving.models.unitr.layers import Block, Part, Sets
from ndformer.modalities.driving.models.unitr.places import SENSOR_PLANES, Flat, Plane, Windows
from ndformer.modalities.driving.models.unitr.sets import by_length

Kind = Literal["own", "image", "bev"]


@BACKBONES.register_module()
class UniTR(nn.Module):
    """UniTR over the tokens of Pillars and CameraPatches, at (x, y, view, row, column, row off, column off).

    Every token has a position in the bird's-eye view (BEV) and one in a camera. The last two coordinates are the
    distance of a patch from the projected point that gave it its BEV position.

    `blocks` selects the plane of attention of each block: 'own', pillars in the BEV and the patches of each camera
    separately; 'image', all tokens in the plane of a camera, with a margin of its size for pillars outside; 'bev', all
    tokens in the BEV. Windows of `window` cells (of `cell` meters, or patches) are divided into sets of `size` tokens,
    along y in even blocks and x in odd ones. `corner` is the corner of the BEV, `view` the rows and columns of patches
    of a camera.

    Each plane has its own `encoding`. Positions are relative to the middle of the window, in meters or patches divided
    by `unit` (BEV, camera), or in whole cells with `positions='cells'`. Embeddings are added before the first block of
    each plane.

    The published network has encoding=dict(type='LearnableMLP', norm='batch') and positions='cells'. It has
    `sensor_encodings`: in shared planes, tokens also get the encoding of the plane of their sensor, and patches that of
    their distance to the point. It has `view_axis`: the camera is a third axis of the image plane, although all tokens
    of a set have the same.
    """

    skips_parameters: ClassVar = True  # those of the cameras, if there are none
    renamed_options: ClassVar = dict(
        told=Renamed("positions", dict(places="continuous")), keep_own=Renamed("sensor_encodings")
    )

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
        positions: Literal["continuous", "cells"] = "continuous",
        sensor_encodings: bool = False,
        view_axis: bool = False,
        checkpointing: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.dim, self.kinds, self.integer_cells = dim, tuple(blocks), positions == "cells"
        self.sensor_encodings = sensor_encodings
        self.view_axis, self.checkpointing = view_axis, checkpointing
        wrong = sorted(set(blocks) - {"own", "image", "bev"})
        if wrong or not blocks:
            raise ValueError(f"blocks expects one or more of 'own', 'image' and 'bev', got {wrong or 'none'}")
        bev, patch = Plane((0, 1), corner, cell), Plane((3, 4), (0.0, 0.0), views=True)
        canvas = Plane((3, 4), (-float(view[0]), -float(view[1])), views=True)
        self.planes = dict(lidar=bev, camera=patch, image=canvas, bev=bev)
        self.units = dict(lidar=cell / unit[0], camera=1 / unit[1], image=1 / unit[1], bev=cell / unit[0])
        self.windows = Windows(window, (window[0] // 2, window[1] // 2), size)
        depth = 2 * len(blocks)

        def make_encoding(dims: int) -> PositionEncoding:
            return build_encoding(encoding, dim=dim, heads=heads, position_dims=dims, depth=depth)

        named = [name for kind in blocks for name in self._names(kind)]
        self.encodings = nn.ModuleDict(
            {name: make_encoding(3 if name == "image" and view_axis else 2) for name in dict.fromkeys(named)}
        )
        first = cast(PositionEncoding, next(iter(self.encodings.values())))
        if first.needs_grid:
            raise ValueError(f"{type(first).__name__} needs tokens on a full grid. For UniTR, use {first.instead}")
        first.refuse_circles("UniTR")
        shared = nn.ModuleList(Block(dim, heads, mlp_ratio, backend) for _ in blocks)
        self.blocks = cast(list[Block], shared)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {name: self._encoding(name).layer(i, depth) for name in self._names(blocks[i // 2]) if name != "off"}
            )
            for i in range(depth)
        )
        self.off = self._encoding("off").layer(depth - 1, depth) if "off" in named else LayerEncoding()
        # batch statistics are over all sets
        self.needs_all_sets = any(isinstance(part, nn.BatchNorm1d) for part in self.layers.modules())
        for name, weight in shared.named_parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
            elif "attention" in name:
                nn.init.zeros_(weight)

    def _names(self, kind: Kind) -> tuple[str, ...]:
        """Return the planes whose positions the layers of a block encode."""
        if kind == "own":
            return SENSOR_PLANES
        return (kind, *SENSOR_PLANES, *(["off"] if kind == "bev" else [])) if self.sensor_encodings else (kind,)

    def _encoding(self, name: str) -> PositionEncoding:
        return cast(PositionEncoding, self.encodings[name])

    def layer_index(self, name: str) -> int:
        part, *keys = name.split(".")
        if part == "blocks":
            return 2 * int(keys[0]) + (int(keys[2]) + 1 if keys[1] == "layers" else 2)
        return int(keys[0]) + 1 if part == "layers" else 0

    def forward(self, tokens: TokenSet) -> TokenSet:
        flat = Flat.from_tokens(tokens)
        if not any(encoding.uses_cameras for encoding in self.encodings.values()):
            flat = replace(flat, cameras=None)
        x = flat.flat(tokens.features)
        prepared: dict[str, Any] = {}  # encoding states of planes whose embedding was added
        for k, (kind, block) in enumerate(zip(self.kinds, self.blocks)):
            x = self._apply_encodings(x, kind, flat, prepared, k)
            sets = [self._sets(kind, flat, k, i) for i in range(2)]
            if self.checkpointing and torch.is_grad_enabled():
                x = cast(Tensor, checkpoint(block, x, sets, flat.pillars, use_reentrant=False))
            else:
                x = block(x, sets, flat.pillars)
        x = self._apply_encodings(x, self.kinds[-1], flat, prepared, len(self.blocks))
        return TokenSet(flat.padded(x), tokens.where, tokens.modality)

    def _apply_encodings(self, x: Tensor, kind: Kind, flat: Flat, prepared: dict[str, Any], passed: int) -> Tensor:
        """Apply the parts of encodings outside attention, in the planes of a block: embeddings and block_update()."""
        for name in SENSOR_PLANES if kind == "own" else (kind,):
            encoding = self._encoding(name)
            new = name not in prepared
            if new:
                prepared[name] = encoding.prepare(self._uncut(name, flat))
            if new or encoding.has_block_update:
                rows = flat.padded(x)
                rows = encoding.embed(rows, prepared[name]) if new else rows
                x = flat.flat(encoding.block_update(rows, prepared[name], passed))
        return x

    def _uncut(self, name: str, flat: Flat) -> Where:
        """Return the positions in a plane, relative to its corner, of all tokens in one row per sample."""
        positions = self._axes(name, self.planes[name].cells(flat.places) * self.units[name])
        valid = flat.padded(torch.ones_like(positions[:, :1]))[..., 0] > 0
        placed = None
        if name in SENSOR_PLANES:
            placed = flat.padded(self._placed(name, flat)[:, None].to(positions.dtype))[..., 0] > 0
        return Where(flat.padded(positions), valid=valid, placed=placed)

    def _axes(self, name: str, positions: Tensor) -> Tensor:
        """Append the camera axis to (T, 2) coordinates of the image plane, under `view_axis`.

        Windows are one camera deep, and the published code subtracts half of a depth of 0: the coordinate is 0.
        """
        if name != "image" or not self.view_axis:
            return positions
        return torch.cat([positions, torch.zeros_like(positions[:, :1])], 1)

    def _placed(self, name: str, flat: Flat) -> Tensor:
        """Return (T,): which tokens belong to the plane of a sensor."""
        first = torch.arange(len(flat.index), device=flat.index.device) < flat.pillars
        return first if name == "lidar" else ~first

    def _sets(self, kind: Kind, flat: Flat, k: int, i: int) -> Sets:
        """Return the sets of layer i of block k."""
        layer, major = cast(nn.ModuleDict, self.layers[2 * k + i]), 1 if k % 2 == 0 else 0
        coordinates = {name: self._coordinates(name, flat, i == 1) for name in self._names(kind)}
        parts = []
        for name in SENSOR_PLANES if kind == "own" else (kind,):
            planes = [name] if kind == "own" else self._names(kind)
            for rows in self.rows(name, flat, i == 1, major):
                states, layers = [], []
                for plane in planes:
                    sensor = "camera" if plane == "off" else plane
                    placed = None if plane == name else rows.gather(self._placed(sensor, flat))
                    cameras = None if flat.cameras is None else rows.gather(flat.cameras)
                    where = Where(rows.gather(coordinates[plane]), valid=rows.valid, placed=placed, cameras=cameras)
                    states.append((where, self._encoding(plane).prepare(where)))
                    layers.append(self.off if plane == "off" else cast(LayerEncoding, layer[plane]))
                where, state = states[0]
                encoding = layers[0]
                if len(planes) > 1:
                    encoding, state = ComposedLayer(layers), tuple(state for _, state in states)
                parts.append(Part(rows, where, state, encoding))
        return Sets.from_parts(parts, flat.places)

    def rows(self, name: str, flat: Flat, moved: bool, major: int) -> list[Rows]:
        """Return the sets of a plane, grouped by length on a CPU unless encodings need batch statistics of all sets."""
        plane, tokens = self.planes[name], flat.token_slice(name)
        places, sample = flat.places[tokens], flat.sample[tokens]
        rows = self.windows.sets(plane.cells(places), plane.group(places, sample), moved, major)
        rows = Rows(rows.index + tokens.start, rows.valid)
        if self.needs_all_sets or places.device.type != "cpu":
            return [rows] if len(places) else []
        return by_length(rows)

    def _coordinates(self, name: str, flat: Flat, moved: bool) -> Tensor:
        """Return the coordinates (T, P) that encodings of a plane get."""
        if name == "off":
            return flat.places[:, 5:7] * self.units["image"]
        cells = self.windows.inside(self.planes[name].cells(flat.places), moved, self.integer_cells)
        return self._axes(name, cells if self.integer_cells else cells * self.units[name])
