"""Point Transformer V3 (Wu 2024): an encoder-decoder with attention in windows along space-filling curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ndformer.framework.backbones.ptv3.curves import CURVES, bits_for, check_curve, serialize
from ndformer.framework.backbones.ptv3.layers import Pool, Stage, Stem, Unpool
from ndformer.framework.backbones.ptv3.points import Cells, Counts, Level
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.errors import DataError
from ndformer.framework.registry import BACKBONES
from ndformer.framework.registry.ranges import Few, Positive, Rate, Width
from ndformer.framework.sparse import Sites
from ndformer.framework.sparse.sites import Extent
from ndformer.framework.tokens import TokenSet, Where


@BACKBONES.register_module()
class PTv3(nn.Module):
    """Point Transformer V3 over points (x, y, z) with `in_channels` features, padded or packed.

    With a decoder it returns features of every input point. With `dec_depths=()` it is the encoder alone and returns
    features of the coarsest points, one padded row per sample.

    `grid_size` is the voxel size in the unit of the positions. `bits` is the number of bits per axis of voxel indices;
    None uses as few as the batch needs, as published, which makes the Hilbert curve of a sample depend on its batch.
    The order of curves is random in training (`shuffle`), so that every block uses every curve.

    `encoding` is the position encoding in every attention layer, with one instance per stage. `positions` selects its
    input: 'metric', the positions of the points, averaged over cells in coarser stages; or 'grid', the voxel indices in
    units of the first stage. `stage_scale` divides both by 2^stage; voxel indices are those of the stage then.
    `cpe='none'` removes the published convolutional position encoding. With cpe='xcpe', no encoding and the default
    sizes this is the published network; its RPE is RelativeBias(reach=31) with positions='grid' and stage_scale.
    """

    def __init__(
        self,
        in_channels: Width = 6,
        grid_size: Positive = 0.02,
        encoding: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        enc_depths: Sequence[Few] = (2, 2, 2, 6, 2),
        enc_channels: Sequence[Width] = (32, 64, 128, 256, 512),
        enc_heads: Sequence[Few] = (2, 4, 8, 16, 32),
        dec_depths: Sequence[Few] = (2, 2, 2, 2),
        dec_channels: Sequence[Width] = (64, 64, 128, 256),
        dec_heads: Sequence[Few] = (4, 4, 8, 16),
        window: Width = 1024,
        mlp_ratio: Positive = 4.0,
        drop_path: Rate = 0.3,
        curves: Sequence[str] = CURVES,
        shuffle: Literal["train", "always", "never"] = "train",
        bits: Few | None = 16,
        cpe: Literal["xcpe", "none"] = "xcpe",
        positions: Literal["metric", "grid"] = "metric",
        stage_scale: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        stages = len(enc_depths)
        _check_lengths("enc_", stages, depths=enc_depths, channels=enc_channels, heads=enc_heads)
        if dec_depths:
            _check_lengths("dec_", stages - 1, depths=dec_depths, channels=dec_channels, heads=dec_heads)
        if grid_size <= 0 or window < 1:
            raise ValueError(f"grid_size must be above 0 and window at least 1, got {grid_size} and {window}")
        if bits is not None and not stages - 1 <= bits <= 21:
            raise ValueError(f"bits must be from {stages - 1}, one per pooling, to 21, got {bits}")
        self.in_channels, self.grid_size, self.window, self.bits = in_channels, grid_size, window, bits
        self.curves, self.shuffle = tuple(map(check_curve, curves)), shuffle
        self.positions, self.stage_scale = positions, stage_scale
        self.dim = dec_channels[0] if dec_depths else enc_channels[-1]  # channels of the output

        first = list(accumulate([*enc_depths, *reversed(dec_depths)], initial=0))  # first layer of each stage; total

        def stage(first_layer: int, dim: int, heads: int, rates: list[float], resample: nn.Module | None) -> Stage:
            stage_encoding = build_encoding(encoding, dim=dim, heads=heads, position_dims=3, depth=first[-1])
            if resample is not None:  # embedding weights of later stages would never be used
                stage_encoding = stage_encoding.embedded()
            return Stage(stage_encoding, first_layer, rates, mlp_ratio, cpe == "xcpe", backend, resample)

        self.stem = Stem(in_channels, enc_channels[0])
        rates = _shares(drop_path, enc_depths)
        pools = [None, *(Pool(a, b) for a, b in zip(enc_channels, enc_channels[1:]))]
        self.encoder = cast(list[Stage], nn.ModuleList(map(stage, first, enc_channels, enc_heads, rates, pools)))
        self.decoder = cast(list[Stage], nn.ModuleList())  # coarsest first
        if dec_depths:
            widths = [*dec_channels, enc_channels[-1]]
            rates = [share[::-1] for share in _shares(drop_path, dec_depths)]
            ups = [Unpool(widths[s + 1], enc_channels[s], widths[s]) for s in range(stages - 1)]
            sizes = [(dec_channels[s], dec_heads[s], rates[s], ups[s]) for s in reversed(range(stages - 1))]
            self.decoder.extend(stage(layer, *size) for layer, size in zip(first[stages:], sizes))
        first_encoding = self.encoder[0].encoding
        if first_encoding.needs_grid:
            raise ValueError(
                f"{type(first_encoding).__name__} needs tokens on a full grid. For points, use {first_encoding.instead}"
            )
        first_encoding.refuse_circles("PTv3")
        self.centered, self.depth = first_encoding.translation_invariant, first[-1]

    def layer_index(self, name: str) -> int:
        part, *keys = name.split(".")
        if part == "stem":
            return 0
        stage = (self.encoder if part == "encoder" else self.decoder)[int(keys[0])]
        return stage.first + (int(keys[2]) + 1 if keys[1] == "blocks" else keys[1] == "resample")

    def forward(self, tokens: TokenSet, grid: Tensor | None = None) -> TokenSet:
        """Encode tokens; `grid` (B, N, 3) gives voxel indices other than floor(positions / grid_size)."""
        points = Flat.from_tokens(tokens)
        if not self.decoder and tokens.where.segment is not None:
            points.check_order(tokens.where.segment)
        x = points.flat(tokens.features)
        if x.shape[1] != self.in_channels:
            raise ValueError(f"PTv3 expects points with in_channels={self.in_channels} features, got {x.shape[1]}")
        level = self._level(points, grid)
        x = self.stem(x, level.sites)
        encoding = self.encoder[0].encoding
        encoding.refuse_cameras(tokens.where, "PTv3")
        where = level.where if points.objects is None else replace(level.where, objects=points.objects[None])
        x = encoding.embed(x[None], encoding.prepare(where))[0]

        passed: list[tuple[Tensor, Level, Cells]] = []
        for s, stage in enumerate(self.encoder):
            if s > 0:
                cells = level.cells()
                passed.append((x, level, cells))
                x, level = stage.resample(x, cells), self._coarser(level, cells, s)
            x = stage(x, level)
        for stage in self.decoder:
            before, level, cells = passed.pop()
            x, skip = stage.resample(x, before, cells)
            x = stage(x, level, skip)
        return points.restored(x, tokens) if self.decoder else points.per_sample(x, level)

    def _level(self, points: Flat, grid: Tensor | None) -> Level:
        r, sample = points.positions, points.sample
        if grid is None:
            voxels = (r.double() / self.grid_size).floor().long()
        else:
            voxels = points.flat(grid).long()
        low = voxels.new_full((points.samples, 3), torch.iinfo(torch.int64).max)
        low.scatter_reduce_(0, sample[:, None].expand_as(voxels), voxels, "amin")
        voxels = voxels - low[sample]
        finite, *high = torch.cat([r.isfinite().all()[None].long(), voxels.amax(0)]).tolist()
        if not finite:
            raise DataError("points have coordinates that are not finite (NaN or infinite): remove them from the data")
        bits = bits_for(max(high), points.samples, self.bits, self.grid_size)
        bits = max(bits, len(self.encoder) - 1)  # at least one per pooling
        codes = torch.stack([serialize(voxels, sample, bits, curve) for curve in self.curves])
        counts, occupied = Counts.from_codes(codes[0], sample, points.samples, len(self.encoder))
        if 0 in counts.on_host[0]:
            empty = counts.on_host[0].index(0)
            raise DataError(f"sample {empty} of a batch has no points: remove it, or the transform that removed them")
        sites = Sites(voxels, sample, Extent(points.samples, (0, 0, 0), tuple(high), occupied))
        return self._build_level(sites, r, codes, counts, 0)

    def _coarser(self, level: Level, cells: Cells, stage: int) -> Level:
        counts, high = level.counts.coarser(), tuple(edge >> 1 for edge in level.sites.extent.high)
        extent = Extent(level.sites.extent.samples, (0, 0, 0), high, sum(counts.on_host[0]))  # one voxel per point
        sites = Sites(level.sites.grid[cells.first] >> 1, level.sites.sample[cells.first], extent)
        positions = cells.reduce(level.positions.double(), "mean").to(level.positions.dtype)  # sums of many meters
        return self._build_level(sites, positions, level.codes[:, cells.first] >> 3, counts, stage)

    def _build_level(self, sites: Sites, positions: Tensor, codes: Tensor, counts: Counts, stage: int) -> Level:
        places = positions if self.positions == "metric" else sites.grid.to(positions.dtype) * 2**stage
        places = places / 2**stage if self.stage_scale else places
        level = Level(sites, positions, places, codes, counts, self.window, self.centered)
        return level.shuffled() if self.shuffle == "always" or (self.shuffle == "train" and self.training) else level


@dataclass(frozen=True, eq=False)
class Flat:
    """The points of a padded or packed token set, sample after sample."""

    positions: Tensor  # (N, 3)
    sample: Tensor  # (N,) from 0
    samples: int
    index: Tensor  # (N,) indices of the points among the tokens of the set
    shape: tuple[int, int]  # rows and tokens of the set
    objects: Tensor | None  # (N,)

    @classmethod
    def from_tokens(cls, tokens: TokenSet) -> Flat:
        where, shape = tokens.where, (tokens.features.shape[0], tokens.features.shape[1])
        if where.positions.shape[2] != 3:
            raise ValueError(f"PTv3 takes points in 3 dimensions, got {where.positions.shape[2]}")
        if where.placed is not None:
            raise ValueError(
                "PTv3 expects tokens with positions, got class or register tokens, which have none. Remove them."
            )
        valid = None if where.valid is None else where.valid.expand(shape)
        row = torch.arange(shape[0], device=tokens.features.device)[:, None].expand(shape)
        index = torch.ones_like(row) if valid is None else valid
        index = index.flatten().nonzero().squeeze(1)
        if len(index) == 0:
            raise DataError("a batch has no points: remove such samples, or the transform that removed their points")
        positions = where.positions.expand(shape[0], -1, -1).flatten(0, 1)[index]
        if where.segment is None:
            sample, samples = row.flatten()[index], shape[0]
        else:
            run = (row * (shape[1] + 1) + where.runs()).flatten()[index]
            sample = torch.nn.functional.pad((run[1:] != run[:-1]).long().cumsum(0), (1, 0))
            samples = int(sample[-1]) + 1
        objects = None if where.objects is None else where.objects.expand(shape).flatten()[index]
        return cls(positions, sample, samples, index, shape, objects)

    def check_order(self, segment: Tensor) -> None:
        """Raise unless packed samples are in order: without a decoder, row s of the output is sample s."""
        if not torch.equal(self.sample, segment.expand(self.shape).flatten()[self.index]):
            raise ValueError(
                "PTv3 without a decoder expects packed samples numbered 0, 1, 2 ... in their order, got other "
                "segments. Pack them in order, or pad"
            )

    def flat(self, values: Tensor) -> Tensor:
        """Select the points (N, C) of padded or packed values (B, T, C)."""
        return values.flatten(0, 1).index_select(0, self.index)

    def restored(self, x: Tensor, tokens: TokenSet) -> TokenSet:
        """Return features (N, C) as a token set in the layout of `tokens`."""
        rows, width = self.shape
        total = x.new_zeros(rows * width, x.shape[1]).index_copy(0, self.index, x)
        return TokenSet(total.unflatten(0, self.shape), tokens.where, tokens.modality)

    def per_sample(self, x: Tensor, level: Level) -> TokenSet:
        """Return the features (M, C) of a coarse level as one padded row per sample."""
        counts = level.counts.on_host[0]
        rows, places = (pad_sequence(list(t.split(counts)), batch_first=True) for t in (x, level.positions))
        slot = torch.arange(rows.shape[1], device=x.device)
        valid = slot < level.counts.on_device[0][:, None]
        return TokenSet(rows, Where(places, valid=None if len(set(counts)) == 1 else valid))


def _shares(rate: float, depths: Sequence[int]) -> list[list[float]]:
    """Return drop rates that grow from 0 to `rate` over all layers, grouped by stage."""
    rates = [rate * i / max(1, sum(depths) - 1) for i in range(sum(depths))]
    return [rates[sum(depths[:s]) : sum(depths[: s + 1])] for s in range(len(depths))]


def _check_lengths(prefix: str, stages: int, **values_by_name: Sequence[int]) -> None:
    for name, values in values_by_name.items():
        if len(values) != stages:
            raise ValueError(
                f"{prefix}{name} expects one number per stage, {stages}, got {len(values)}: {tuple(values)}"
            )
