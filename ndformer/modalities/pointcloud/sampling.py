"""Farthest point sampling (FPS) and nearest neighbors (k-NN): batched, padded, on any device, bit-identical.

Distances are sums of three squares, rounded the same way for each point, and ties go to the first point. So a cloud
alone, in a batch and padded gives the same points. A matrix product would be faster, but not reproducible.
"""

import math

import torch
from torch import Tensor

CHUNK = 2**23  # distances computed at once


@torch.no_grad()
def farthest(points: Tensor, count: int, valid: Tensor | None = None) -> Tensor:
    """Farthest point sampling: return indices (B, count) of points (B, N, 3), each the farthest from all before it.

    The first is the farthest from the center of the bounding box, so the order of the points does not matter. Where a
    cloud has fewer points than `count`, indices repeat.
    """
    B, N, _ = points.shape
    axes = points.float().transpose(1, 2).contiguous()  # (B, 3, N)
    distance = axes.new_full((B, N), math.inf)  # squared, to the nearest selected point
    low, high = axes, axes
    if valid is not None:
        distance = distance.masked_fill(~valid, -1)  # padding is never the farthest
        low, high = (axes.masked_fill(~valid[:, None], limit) for limit in (math.inf, -math.inf))
    squares = axes - (low.amin(2, keepdim=True) + high.amax(2, keepdim=True)) / 2  # (B, 3, N)
    last = torch.minimum(distance, _squared_norm(squares)).argmax(1)  # (B,)
    selected = torch.empty(B, count, dtype=torch.int64, device=points.device)
    for i in range(count):  # each step needs the one before; all points of all clouds are updated at once
        selected[:, i] = last
        torch.sub(axes, axes.gather(2, last[:, None, None].expand(-1, 3, -1)), out=squares)
        torch.minimum(distance, _squared_norm(squares), out=distance)
        last = distance.argmax(1)
    return selected


@torch.no_grad()
def nearest(points: Tensor, centers: Tensor, count: int, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return indices and squared distances (B, M, K) of the K points (B, N, 3) nearest to each center (B, M, 3).

    They are sorted by distance. K is `count`, or N where that is less; beyond a cloud's valid points distances are inf.
    """
    B, N, _ = points.shape
    axes = points.float().transpose(1, 2)[:, :, None]  # (B, 3, 1, N)
    number = torch.arange(N, device=points.device)
    keys = []
    for part in centers.float().split(max(1, CHUNK // max(1, B * N)), dim=1):
        distance = _squared_norm(axes - part.transpose(1, 2)[..., None])  # (B, m, N)
        if valid is not None:
            distance = distance.masked_fill(~valid[:, None], math.inf)
        # The bits of a non-negative float sort like its value; with the index as the lower bits, ties sort by index.
        key = distance.view(torch.int32).long() << 32 | number
        keys.append(key.topk(min(count, N), dim=2, largest=False).values)
    key = torch.cat(keys, dim=1)
    return key & 0xFFFFFFFF, (key >> 32).int().view(torch.float32)


def take(values: Tensor, index: Tensor) -> Tensor:
    """Gather rows of (B, N, C) at indices (B, ...): (B, ..., C)."""
    row = torch.arange(len(values), device=values.device).reshape(-1, *[1] * (index.dim() - 1))
    return values[row, index]


def _squared_norm(differences: Tensor) -> Tensor:
    """Square (B, 3, ...) in place and return the sums over the axes (B, ...)."""
    x, y, z = differences.mul_(differences).unbind(1)
    return x.add_(y).add_(z)
