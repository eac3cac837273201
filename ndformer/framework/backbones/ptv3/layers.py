"""Layers of Point Transformer V3: convolution over voxels, attention in windows, pooling over cells."""

from typing import Any

from torch import Tensor, nn

from ndformer.framework.attention import Attention
from ndformer.framework.attention_maps import AttentionMaps, RowCutter
from ndformer.framework.backbones.ptv3.points import Cells, Level
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.grouped import SameDraw
from ndformer.framework.errors import DataError
from ndformer.framework.sparse import XCPE, Sites, SubMConv3d
from ndformer.framework.system.norm_momentum import GradualNorm
from ndformer.framework.system.processes import rand
from ndformer.framework.transformer import MLP

MOMENTUM = 0.01  # as published


class Norm(GradualNorm, nn.BatchNorm1d):
    """Batch norm over all points with the published constants, whose statistics follow short trainings."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, 1e-3, MOMENTUM)

    def forward(self, input: Tensor) -> Tensor:
        if self.training and len(input) == 1:
            raise DataError(
                "all points of this training batch lie in one voxel of a stage, and batch norm needs more than one: "
                "use a smaller grid_size, larger batches, or remove such samples"
            )
        return super().forward(input)

    def after_loading(self, keys: object) -> None:
        """Set the batch count of statistics that have none (converted weights), so that they are not overwritten."""
        super().after_loading(keys)
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        fresh = bool((self.running_mean == 0).all()) and bool((self.running_var == 1).all())
        if int(self.num_batches_tracked) == 0 and not fresh:
            self.num_batches_tracked.fill_(int(10 / MOMENTUM))  # after which the momentum is the published one


class Stem(nn.Module):
    """A submanifold convolution from input features to the first width."""

    def __init__(self, dim: int, out_dim: int) -> None:
        super().__init__()
        self.conv = SubMConv3d(dim, out_dim, kernel=5, bias=False)
        self.norm = Norm(out_dim)
        self.act = nn.GELU()

    def forward(self, x: Tensor, sites: Sites) -> Tensor:
        return self.act(self.norm(self.conv(x, sites)))


class DropPoints(nn.Module):
    """Stochastic depth per point, as published (not per sample)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep_mask = rand(len(x), 1, device=x.device) >= self.rate
        return x * (keep_mask.to(x.dtype) / (1 - self.rate))


class Block(nn.Module):
    """x + cpe(x), then x + attention(norm(x)) within windows, then x + mlp(norm(x))."""

    def __init__(
        self, dim: int, heads: int, encoding: LayerEncoding, mlp_ratio: float, drop_path: float, cpe: bool, backend: str
    ) -> None:
        super().__init__()
        self.cpe = XCPE(dim) if cpe else None
        self.norm1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, encoding, backend=backend)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = MLP(dim, mlp_ratio)
        self.drop_path = DropPoints(drop_path)

    def forward(self, x: Tensor, level: Level, curve: int, state: Any, skip: Tensor | None = None) -> Tensor:
        """Return (N, dim) from x (N, dim); `skip` replaces x as the input of the convolution."""
        if self.cpe is not None:
            x = x + self.cpe(x if skip is None else skip, level.sites)
        windows = level.windows(curve)
        x = x + self.drop_path(windows.join(self.attention(windows.cut(self.norm1(x)), windows.where, state)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class Stage(RowCutter):
    """Blocks of one width with one position encoding; successive blocks use successive curves."""

    def __init__(
        self,
        encoding: PositionEncoding,
        first: int,
        drop_path: list[float],
        mlp_ratio: float,
        cpe: bool,
        backend: str,
        resample: Any = None,
    ) -> None:
        """`first` is the index of the first block among all layers, `resample` the pooling or unpooling before it."""
        super().__init__()
        self.resample, self.encoding, self.first = resample, encoding, first
        dim, heads, depth = encoding.dim, encoding.heads, encoding.depth
        self.blocks = nn.ModuleList(
            Block(dim, heads, encoding.layer(first + i, depth), mlp_ratio, rate, cpe, backend)
            for i, rate in enumerate(drop_path)
        )

    def forward(self, x: Tensor, level: Level, skip: Tensor | None = None) -> Tensor:
        """Return (N, dim) from x (N, dim).

        `skip` is the skip connection's part of x after unpooling. It is the input of the first block's convolution,
        which the paper does not mention but the published weights need.
        """
        states: dict[int, Any] = {}
        acts = self.encoding.has_block_update
        draw = SameDraw(self.encoding)
        uncut = draw.prepare(level.where) if acts else None

        def apply_encoding(x: Tensor, passed: int) -> Tensor:
            return self.encoding.block_update(x[None], uncut, passed)[0] if acts else x

        x = apply_encoding(x, 0)
        for i, block in enumerate(self.blocks):
            curve = i % len(level.orders)
            if curve not in states:
                states[curve] = draw.prepare(level.windows(curve).where)
            x = apply_encoding(block(x, level, curve, states[curve], skip if i == 0 else None), i + 1)
        return x

    def sample_positions(self, maps: AttentionMaps, *args: Any) -> Tensor:
        level: Level = args[1]
        (windows,) = (windows for windows in level.cached.values() if windows.where is maps.where)
        return windows.rows.gather(level.positions)


class Pool(nn.Module):
    """Max pooling of points over cells."""

    def __init__(self, dim: int, out_dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(dim, out_dim)
        self.norm = Norm(out_dim)
        self.act = nn.GELU()

    def forward(self, x: Tensor, cells: Cells) -> Tensor:
        return self.act(self.norm(cells.reduce(self.proj(x), "max")))


class Unpool(nn.Module):
    """Unpooling: the features of each point's cell plus its features from before pooling."""

    def __init__(self, dim: int, skip_dim: int, out_dim: int) -> None:
        super().__init__()
        self.proj = nn.Sequential(nn.Linear(dim, out_dim), Norm(out_dim), nn.GELU())
        self.skip = nn.Sequential(nn.Linear(skip_dim, out_dim), Norm(out_dim), nn.GELU())

    def forward(self, x: Tensor, before: Tensor, cells: Cells) -> tuple[Tensor, Tensor]:
        """Return the sum of both, and the skip connection alone."""
        skip = self.skip(before)
        return skip + self.proj(x).index_select(0, cells.cell), skip
