"""Objects of a grid: connected components and their bounding boxes (connected-component labeling in torch).

All grids of a batch are processed at once, without a loop over cells or components.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def components(mask: Tensor, corners: bool = True) -> Tensor:
    """Return the number of each cell's component, (B, H, W) int64, for a mask (B, H, W); 0 outside of the mask.

    Neighbors share a side, or with `corners` also a corner. Components are numbered from 1, in the reading order of
    their first cells.
    """
    B, H, W = mask.shape
    none = H * W
    cells = torch.arange(none, device=mask.device).expand(B, -1)
    first = torch.where(mask.flatten(1), cells, none)  # (B, HW) the first cell found so far of each component
    while True:
        lowest = _lowest(first.view(B, H, W), corners).flatten(1)
        lowest = torch.where(mask.flatten(1), lowest, none)
        # the first cell of that cell is one of this cell too, so labels travel twice as far in each step
        updated = F.pad(lowest, (0, 1), value=none).gather(1, lowest)
        if torch.equal(updated, first):
            break
        first = updated
    numbers = (first == cells).cumsum(1)
    return F.pad(numbers, (0, 1), value=0).gather(1, first).view(B, H, W)


def _lowest(values: Tensor, corners: bool) -> Tensor:
    """Return the minimum over each cell and its neighbors; float32 is exact for cell numbers."""
    pooled = lambda y, x: F.max_pool2d(-values[:, None].float(), (y, x), 1, (y // 2, x // 2))
    negated = pooled(3, 3) if corners else torch.maximum(pooled(3, 1), pooled(1, 3))
    return -negated[:, 0].long()


def boxes(numbers: Tensor) -> Tensor:
    """Return top, left, bottom, right (B, K, 4), bottom and right included, of components (B, H, W).

    For components that a grid does not have, top is below bottom.
    """
    B, H, W = numbers.shape
    K = int(numbers.max())
    y = torch.arange(H, device=numbers.device)[:, None].expand(B, H, W).flatten(1)
    x = torch.arange(W, device=numbers.device).expand(B, H, W).flatten(1)
    flat = numbers.flatten(1)

    def reduce(values: Tensor, start: int, how: str) -> Tensor:
        out = torch.full((B, K + 1), start, dtype=torch.int64, device=numbers.device)
        return out.scatter_reduce(1, flat, values, how)[:, 1:]

    low, high = (H, W), -1
    return torch.stack(
        [reduce(y, low[0], "amin"), reduce(x, low[1], "amin"), reduce(y, high, "amax"), reduce(x, high, "amax")], -1
    )


def box_numbers(mask: Tensor) -> Tensor:
    """Return the number of the box that each cell lies in, (B, H, W) int64, for a mask (B, H, W); 0 for none.

    A cell of a component is in the box of that component. A background cell in several boxes is in the smallest.
    """
    numbers = components(mask)
    top, left, bottom, right = boxes(numbers).unbind(-1)  # (B, K)
    if top.shape[1] == 0:
        return numbers
    _, H, W = mask.shape
    y, x = torch.arange(H, device=mask.device), torch.arange(W, device=mask.device)
    rows = (top[..., None] <= y) & (y <= bottom[..., None])  # (B, K, H)
    columns = (left[..., None] <= x) & (x <= right[..., None])
    inside = rows[..., :, None] & columns[..., None, :]  # (B, K, H, W)
    area = ((bottom - top + 1) * (right - left + 1))[..., None, None]
    smallest, which = torch.where(inside, area, H * W + 1).min(1)
    return torch.where(mask, numbers, torch.where(smallest <= H * W, which + 1, 0))
