"""Losses of boxes x1 y1 x2 y2: complete IoU (CIoU, Zheng 2020) and distribution focal loss (DFL, Li 2020)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-7


def complete_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the CIoU (...) of boxes (..., 4): IoU minus a center distance term minus an aspect ratio term.

    The weight of the aspect ratio term has no gradient, as in the authors' code.
    """
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)
    (width_a, height_a), (width_b, height_b) = ((box[..., 2:] - box[..., :2]).unbind(-1) for box in (a, b))
    height_a, height_b = height_a + EPS, height_b + EPS
    iou = both / (width_a * height_a + width_b * height_b - both + EPS)
    around = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    offset = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    distance = offset.square().sum(-1) / (around.square().sum(-1) + EPS)
    shape = 4 / math.pi**2 * (torch.atan(width_b / height_b) - torch.atan(width_a / height_a)).square()
    with torch.no_grad():
        weight = shape / (shape - iou + (1 + EPS))
    return iou - distance - weight * shape


def distribution_focal(logits: Tensor, distance: Tensor) -> Tensor:
    """Return the DFL (...) of logits (..., R): cross entropy with the two bins next to the distance (...).

    Distances are clamped to just below R - 1.
    """
    distance = distance.clamp(0, logits.shape[-1] - 1 - 0.01)
    below = distance.floor().long()
    share = distance - below
    log_p = F.log_softmax(logits, -1)
    lower, upper = (log_p.gather(-1, bin[..., None]).squeeze(-1) for bin in (below, below + 1))
    return -(lower * (1 - share) + upper * share)
