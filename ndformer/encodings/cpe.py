"""CPE, conditional position encoding: a convolution over the tokens, added to them between blocks."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.bias.base import round_to_steps
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.sparse import XCPE, Sites
from ndformer.framework.system.autocast import contiguous_in_graph
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class CPE(PositionEncoding):
    """x -> x + a depthwise convolution of x over the grid, 3 cells wide along every axis (PEG of CPVT, Chu 2021).

    It acts once in each stage, after its first block, or with `before` ahead of it. `voxels` is for positions without a
    grid, in up to 3 dimensions: x + LayerNorm(Linear(convolution over the occupied voxels)), the xCPE of Point
    Transformer V3. A voxel is one unit of the scaled positions: for voxels of side s set position_scale = 1 / s. Tokens
    without a position, and those before a grid, stay as they are.

    Weights, shared by all layers of a stage: `conv.weight` (dim, 1, 3, ...) and `conv.bias` (dim,), or those of XCPE.

    Papers: arXiv:2102.10882 (CPVT), arXiv:2312.10035 (Point Transformer V3).
    """

    needs_grid = True
    content_dependent = True
    rotation_invariant = False
    scaled_positions = "float64"
    line_reason = "its convolution ends at the border of the grid"
    instead = "CPE(voxels=True)"

    def __init__(self, *args: Any, before: bool = False, voxels: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if voxels and self.position_dims > 3:
            raise ValueError(
                f"voxels have up to 3 dimensions, got {self.position_dims}: CPE takes grids of any number, PaPE and "
                "AxialRoPE free positions"
            )
        self.block_index, self.voxels = int(not before), voxels
        self.conv: nn.Module = XCPE(self.dim) if voxels else GridConv(self.dim, self.position_dims)
        if voxels:
            self.needs_grid = self.float_positions = self.fullgraph = False
            self.translation_invariant = False  # positions are rounded: only integer translations change nothing

    @property
    def initial_radius(self) -> float | None:
        return 1.5 if self.voxels else None  # from the center of a voxel to the far side of the next

    def tables(self, positions: Tensor, where: Where) -> Any:
        if not self.voxels:
            return where.grid
        voxel = round_to_steps(positions).long()  # integer positions are centers of voxels
        return VoxelState(F.pad(voxel, (0, 3 - self.position_dims)), where)

    def block_update(self, x: Tensor, state: Any, blocks_done: int) -> Tensor:
        if blocks_done != self.block_index:
            return x
        return _convolve_voxels(self.conv, x, state) if self.voxels else self.conv(x, state)


class GridConv(nn.Module):
    """x + a depthwise convolution with zero padding, initialized as torch's convolutions are."""

    def __init__(self, dim: int, dims: int) -> None:
        super().__init__()
        bound = 3 ** (-dims / 2)
        self.weight = nn.Parameter(torch.empty(dim, 1, *[3] * dims).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(dim).uniform_(-bound, bound))

    def forward(self, x: Tensor, grid: tuple[int, ...]) -> Tensor:
        """Convolve the last prod(grid) tokens of x (B, N, dim)."""
        prefix, cells = x.split([x.shape[1] - math.prod(grid), math.prod(grid)], dim=1)
        maps = contiguous_in_graph(cells.mT.unflatten(-1, grid))
        convolved = convolve(maps, self.weight) + self.bias.view(-1, *[1] * len(grid))
        return torch.cat([prefix, cells + convolved.flatten(2).mT.to(x.dtype)], dim=1)


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """Return the depthwise convolution of x (B, C, *grid) with weight (C, 1, 3, ...), in any number of dimensions.

    torch has up to 3; further axes are summed slice by slice.
    """
    dims = x.dim() - 2
    if dims <= 3:
        return (F.conv1d, F.conv2d, F.conv3d)[dims - 1](x, weight, padding=1, groups=x.shape[1])
    B, n = x.shape[0], x.shape[2]
    slices = F.pad(x, (*[0, 0] * (dims - 1), 1, 1)).movedim(2, 1)  # (B, n + 2, C, ...)
    taps = [convolve(slices[:, tap : tap + n].flatten(0, 1), weight[:, :, tap]) for tap in range(3)]
    return sum(taps[1:], taps[0]).unflatten(0, (B, n)).movedim(1, 2)


class VoxelState(NamedTuple):
    voxel: Tensor  # (B or 1, N, 3) integer coordinates
    where: Where


def _convolve_voxels(conv: nn.Module, x: Tensor, state: VoxelState) -> Tensor:
    """Add to tokens (B, N, dim) the convolution over the voxels of their own sample."""
    where, shape = state.where, x.shape[:2]
    row = torch.arange(shape[0], device=x.device)[:, None].expand(shape)
    sample = row if where.segment is None else row * shape[1] + where.runs()
    placed = torch.ones_like(row) if where.real is None else where.real.expand(shape)
    placed = placed.flatten().nonzero().squeeze(1)  # indices of tokens with a position
    if len(placed) == 0:
        return x
    sample = sample.flatten()[placed].unique_consecutive(return_inverse=True)[1]
    voxel = state.voxel.expand(*shape, -1).flatten(0, 1)[placed]
    low = torch.zeros_like(voxel)  # the lowest voxel of each sample, of which there are no more than tokens
    low.scatter_reduce_(0, sample[:, None].expand_as(voxel), voxel, "amin", include_self=False)
    tokens = x.flatten(0, 1)
    inputs = tokens.index_select(0, placed)
    outputs = conv(inputs, Sites(voxel - low[sample], sample))
    return tokens.index_copy(0, placed, inputs + outputs.to(x.dtype)).view_as(x)
