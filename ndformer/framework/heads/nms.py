"""Non-maximum suppression (NMS): of boxes that overlap, the best stays."""

import torch
from torch import Tensor


def suppressed(boxes: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """NMS: (K,) which boxes, best first, overlap by more than `threshold` with a better one of their class that stays.

    A box's fate hangs on those before it, so as many rounds as a chain of overlaps is long settle all.
    """
    side = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0)
    low = torch.maximum(boxes[:, None, :2], boxes[:, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area = side.prod(-1)
    over = both > threshold * (area[:, None] + area - both)
    over = (over & (labels[:, None] == labels)).triu(1)  # (K, K) row before column
    gone = torch.zeros_like(labels, dtype=torch.bool)
    while True:
        now = (over & ~gone[:, None]).any(0)
        if torch.equal(now, gone):
            return gone
        gone = now
