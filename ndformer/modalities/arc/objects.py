"""Objects of a grid: connected components, and the boxes around them (connected-component labelling in torch).

All grids of a batch at once, without a loop over cells or components.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def components(mask: Tensor, corners: bool = True) -> Tensor:
    """(B, H, W) bool -> (B, H, W) int64: the number of the component a cell is of, 0 outside of the mask.

    Neighbours share a side, or with `corners` a corner too. Components are numbered from 1, in the order in which their
    first cells are read.
    """
    B, H, W = mask.shape
    none = H * W
    cells = torch.arange(none, device=mask.device).expand(B, -1)
    first = torch.where(mask.flatten(1), cells, none)  # (B, HW) the first cell known of a cell's component
    while True:
        least = _least(first.view(B, H, W), corners).flatten(1)
        least = torch.where(mask.flatten(1), least, none)
        # what is known of that first cell holds here too: so labels travel twice as far each time
        found = F.pad(least, (0, 1), value=none).gather(1, least)
        if torch.equal(found, first):
            break
        first = found
    numbers = (first == cells).cumsum(1)
    return F.pad(numbers, (0, 1), value=0).gather(1, first).view(B, H, W)


def _least(values: Tensor, corners: bool) -> Tensor:
    """The least value of a cell and its neighbours; float32 is exact for numbers of cells."""
    pooled = lambda y, x: F.max_pool2d(-values[:, None].float(), (y, x), 1, (y // 2, x // 2))
    most = pooled(3, 3) if corners else torch.maximum(pooled(3, 1), pooled(1, 3))
    return -most[:, 0].long()


def boxes(numbers: Tensor) -> Tensor:
    """(B, H, W) numbers of components -> (B, K, 4) top, left, bottom, right, the last two included; of components that
    a grid does not have, top is below bottom."""
    B, H, W = numbers.shape
    K = int(numbers.max())
    y = torch.arange(H, device=numbers.device)[:, None].expand(B, H, W).flatten(1)
    x = torch.arange(W, device=numbers.device).expand(B, H, W).flatten(1)
    flat = numbers.flatten(1)

    def reduced(values: Tensor, start: int, how: str) -> Tensor:
        out = torch.full((B, K + 1), start, dtype=torch.int64, device=numbers.device)
        return out.scatter_reduce(1, flat, values, how)[:, 1:]

    low, high = (H, W), -1
    return torch.stack(
        [reduced(y, low[0], "amin"), reduced(x, low[1], "amin"), reduced(y, high, "amax"), reduced(x, high, "amax")], -1
    )


def box_numbers(mask: Tensor, corners: bool = True) -> Tensor:
    """(B, H, W) bool, what is no background -> (B, H, W) int64: the number of the box that a cell lies in, 0 in none.

    A cell of a component is in that one's box. One of the background may be in several: then in the smallest.
    """
    numbers = components(mask, corners)
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
