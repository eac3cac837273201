"""Sparse submanifold convolution between occupied voxels, in torch or with spconv on a GPU."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.encoding.base import without_autocast
from ndformer.framework.sparse import spconv
from ndformer.framework.sparse.sites import Sites, Table


class SubMConv3d(nn.Module):
    """A 3-D convolution over a volume that is 0 without points, computed only at points.

    y[n] = bias + sum over offsets d of weight[:, d] x[site at voxel(n) + d]. If a voxel contains several points,
    neighbors use their mean and each point uses its own features at the center. The weight has spconv's layout.
    """

    def __init__(
        self,
        dim: int,
        out_dim: int,
        kernel: int = 3,
        bias: bool = True,
        backend: Literal["auto", "torch", "spconv"] = "auto",
    ) -> None:
        super().__init__()
        if kernel % 2 == 0 or kernel < 3:
            raise ValueError(f"kernel must be odd and at least 3, got {kernel}")
        if backend not in ("auto", "torch", "spconv"):
            raise ValueError(f"backend must be 'auto', 'torch' or 'spconv', got {backend!r}")
        self.kernel, self.backend = kernel, backend
        bound = 1 / math.sqrt(dim * kernel**3)
        self.weight = nn.Parameter(torch.empty(out_dim, kernel, kernel, kernel, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_dim).uniform_(-bound, bound)) if bias else None

    def forward(self, x: Tensor, sites: Sites) -> Tensor:
        """Map features (N, dim) to (N, out_dim)."""
        if len(x) != len(sites.site):
            raise ValueError(f"features must have {len(sites.site)} rows, one per point, got {len(x)}")
        weight, bias = self.weight, self.bias
        if torch.is_autocast_enabled(x.device.type):
            dtype = torch.get_autocast_dtype(x.device.type)
            x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        with without_autocast(x):
            means = sites.gather(x)
            if spconv.chosen(self.backend, x.device):
                y = spconv.convolve(means, weight, sites)
            else:
                y = Convolve.apply(means, weight, sites.table(self.kernel))
            y = sites.spread(y)
            if sites.lengths is not None:
                r = self.kernel // 2
                y = y + F.linear(x - sites.spread(means), weight[:, r, r, r])
            return y if bias is None else y + bias


class XCPE(nn.Module):
    """The conditional position encoding of Point Transformer V3: sparse convolution, linear layer and norm."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = SubMConv3d(dim, dim, kernel=3)
        self.linear = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, sites: Sites) -> Tensor:
        return self.norm(self.linear(self.conv(x, sites)))


class Convolve(torch.autograd.Function):
    """The convolution over sites, (V, dim) to (V, out_dim), with a deterministic backward pass.

    Pairs of neighbors are gathered and multiplied offset by offset, then summed site by site. Neither direction adds
    into scattered rows, so both are deterministic, also on a GPU.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, table: Table) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.table = table
        return _convolve(x, weight.flatten(1, 3).unbind(1), table)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        dx = dw = None
        if ctx.needs_input_grad[0]:  # if i is at offset d from o, then o is at -d from i
            dx = _convolve(grad, [w.T for w in reversed(weight.flatten(1, 3).unbind(1))], ctx.table)
        if ctx.needs_input_grad[1]:
            dw = torch.zeros_like(weight)
            _products(x, grad, dw.flatten(1, 3).unbind(1), ctx.table)
        return dx, dw, None


def _convolve(x: Tensor, weights: Sequence[Tensor], table: Table) -> Tensor:
    """Return (V, D) from x (V, C) and a weight (D, C) per offset."""
    center, around = _split_center(weights)
    y = x @ center.T
    buffer = x.new_empty(max(len(block.by_site) for block in table.blocks), len(center))
    for block in table.blocks:
        products = buffer[: len(block.by_site)]
        for product, sites, weight in zip(products.split(block.counts), block.sources, around):
            torch.mm(x.index_select(0, sites), weight.T, out=product)
        y[block.lo : block.hi] += F.embedding_bag(
            block.by_site, products, block.ends, mode="sum", include_last_offset=True
        )
    return y


def _products(x: Tensor, grad: Tensor, totals: Sequence[Tensor], table: Table) -> None:
    """Add the gradients of the weights to `totals`, per offset (D, C): x (V, C), grad (V, D)."""
    center, around = _split_center(totals)
    center.addmm_(grad.T, x)
    for block in table.blocks:
        for total, target, source in zip(around, block.targets, block.sources):
            total.addmm_(grad.index_select(0, target).T, x.index_select(0, source))


def _split_center(weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    half = len(weights) // 2
    return weights[half], [*weights[:half], *weights[half + 1 :]]
