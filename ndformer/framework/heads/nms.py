"""Non-maximum suppression (NMS) of axis-aligned boxes."""

import torch
from torch import Tensor


def suppressed(boxes: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Return (K,) True for boxes, sorted best first, that NMS removes at the IoU `threshold` within each class.

    Each iteration settles one more link of the longest chain of overlapping boxes.
    """
    side = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0)
    low = torch.maximum(boxes[:, None, :2], boxes[:, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area = side.prod(-1)
    over = both > threshold * (area[:, None] + area - both)
    over = (over & (labels[:, None] == labels)).triu(1)  # (K, K) row before column
    removed = torch.zeros_like(labels, dtype=torch.bool)
    while True:
        update = (over & ~removed[:, None]).any(0)
        if torch.equal(update, removed):
            return removed
        removed = update
