"""Conditional position encodings: a convolution tells each token what its neighbours hold, and so where it is."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.bias.base import round_to_steps
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.sparse import XCPE, Sites
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class CPE(PositionEncoding):
    """CPVT's conditional encoding (PEG; Chu 2021): x + a depthwise convolution of x over the grid, 3 cells wide along
    every axis, once in each stage, behind its first block; with `before`, ahead of it.

    `voxels` is for free positions, the form of Point Transformer V3 (xCPE): x + LayerNorm(Linear(a convolution over the
    occupied voxels)), in up to 3 dimensions. A voxel is a whole step of the scaled positions: choose its side, s, by
    position_scale = 1 / s. Tokens without a place, and those before a grid, stay as they are.
    """

    needs_grid = True
    content_dependent = True
    rotation_invariant = False
    scaled_positions = "float64"
    instead = "CPE(voxels=True)"

    def __init__(self, *args: Any, before: bool = False, voxels: bool = False, **rest: Any) -> None:
        super().__init__(*args, **rest)
        if voxels and self.position_dims > 3:
            raise ValueError(
                f"voxels have up to 3 dimensions, got {self.position_dims}: CPE takes grids of any number, PaPE and "
                "AxialRoPE free positions"
            )
        self.at, self.voxels = int(not before), voxels
        self.conv: nn.Module = XCPE(self.dim) if voxels else GridConv(self.dim, self.position_dims)
        if voxels:
            self.needs_grid = self.float_positions = self.fullgraph = False
            self.translation_invariant = False  # places are rounded, not differences: whole moves alone change nothing

    @property
    def initial_radius(self) -> float | None:
        return 1.5 if self.voxels else None  # from the middle of a voxel, to the far side of the next

    def tables(self, positions: Tensor, where: Where) -> Any:
        if not self.voxels:
            return where.grid
        voxel = round_to_steps(positions).long()  # whole positions are in the middle of one
        return Places(F.pad(voxel, (0, 3 - self.position_dims)), where)

    def block_update(self, x: Tensor, state: Any, blocks_done: int) -> Tensor:
        if blocks_done != self.at:
            return x
        return _by_voxels(self.conv, x, state) if self.voxels else self.conv(x, state)


class GridConv(nn.Module):
    """x + depthwise convolution, zero beyond the edges; starts as torch's convolutions do."""

    def __init__(self, dim: int, dims: int) -> None:
        super().__init__()
        bound = 3 ** (-dims / 2)
        self.weight = nn.Parameter(torch.empty(dim, 1, *[3] * dims).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(dim).uniform_(-bound, bound))

    def forward(self, x: Tensor, grid: tuple[int, ...]) -> Tensor:
        """(B, N, dim): the grid's tokens come last."""
        before, cells = x.split([x.shape[1] - math.prod(grid), math.prod(grid)], dim=1)
        seen = convolve(cells.mT.unflatten(-1, grid), self.weight) + self.bias.view(-1, *[1] * len(grid))
        return torch.cat([before, cells + seen.flatten(2).mT.to(x.dtype)], dim=1)


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """(B, C, *grid) with (C, 1, 3, ...), channel by channel; beyond the 3 axes that torch knows, slice by slice."""
    dims = x.dim() - 2
    if dims <= 3:
        return (F.conv1d, F.conv2d, F.conv3d)[dims - 1](x, weight, padding=1, groups=x.shape[1])
    B, n = x.shape[0], x.shape[2]
    slices = F.pad(x, (*[0, 0] * (dims - 1), 1, 1)).movedim(2, 1)  # (B, n + 2, C, ...)
    taps = [convolve(slices[:, tap : tap + n].flatten(0, 1), weight[:, :, tap]) for tap in range(3)]
    return sum(taps[1:], taps[0]).unflatten(0, (B, n)).movedim(1, 2)


class Places(NamedTuple):
    voxel: Tensor  # (B or 1, N, 3) whole numbers
    where: Where


def _by_voxels(conv: nn.Module, x: Tensor, places: Places) -> Tensor:
    """(B, N, dim): each token hears from the neighbours of its own sample."""
    where, shape = places.where, x.shape[:2]
    row = torch.arange(shape[0], device=x.device)[:, None].expand(shape)
    sample = row if where.segment is None else row * shape[1] + where.runs()
    kept = torch.ones_like(row) if where.real is None else where.real.expand(shape)
    kept = kept.flatten().nonzero().squeeze(1)
    if len(kept) == 0:
        return x
    sample = sample.flatten()[kept].unique_consecutive(return_inverse=True)[1]
    voxel = places.voxel.expand(*shape, -1).flatten(0, 1)[kept]
    low = torch.zeros_like(voxel)  # of no more samples than tokens; counted from there, they may be far apart
    low.scatter_reduce_(0, sample[:, None].expand_as(voxel), voxel, "amin", include_self=False)
    tokens = x.flatten(0, 1)
    own = tokens.index_select(0, kept)
    heard = conv(own, Sites(voxel - low[sample], sample))
    return tokens.index_copy(0, kept, own + heard.to(x.dtype)).view_as(x)


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(CPE)
