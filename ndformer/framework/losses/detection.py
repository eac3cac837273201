"""The loss of a YOLO branch: class scores (BCE), box overlap (CIoU) and distance distributions (DFL)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.losses.assignment import Assignment, Objects
from ndformer.framework.losses.boxes import complete_iou, distribution_focal
from ndformer.framework.system.processes import shared_divisor

BOX, SCORE, SIDES = 7.5, 0.5, 1.5  # weights of the losses


@dataclass(frozen=True, eq=False)
class Anchors:
    """Predictions at all anchors, level by level (finest first) and row by row."""

    centers: Tensor  # (A, 2) x y in pixels, or (B, A, 2) of samples of different sizes
    stride: Tensor  # (A,) or (B, A) pixels between neighbors
    logits: Tensor  # (B, A, classes)
    sides: Tensor  # (B, A, 4, R) logits of the distances to left, top, right and bottom, in strides
    boxes: Tensor  # (B, A, 4) x1 y1 x2 y2 in pixels


def detection_losses(
    anchors: Anchors, objects: Objects, assign: Callable[[Tensor, Tensor, Tensor, Objects], Assignment]
) -> dict[str, Tensor]:
    """Return the three weighted losses, not multiplied by the batch size (some implementations do that)."""
    assigned = assign(anchors.logits.detach().sigmoid(), anchors.boxes.detach(), anchors.centers, objects)
    sample, anchor = assigned.chosen.nonzero(as_tuple=True)  # F assigned anchors
    index, weight = assigned.object[sample, anchor], assigned.weight[sample, anchor]
    scores = anchors.logits.new_zeros(anchors.logits.shape)
    scores[sample, anchor, objects.labels[sample, index]] = weight
    total = shared_divisor(weight.sum())

    batch = len(anchors.logits)
    stride = anchors.stride.expand(batch, -1)[sample, anchor, None]
    predicted, true = anchors.boxes[sample, anchor] / stride, objects.boxes[sample, index] / stride  # (F, 4)
    center = anchors.centers.expand(batch, -1, -1)[sample, anchor] / stride
    distance = torch.cat([center - true[:, :2], true[:, 2:] - center], -1)  # to the left and top, right and bottom
    focal = distribution_focal(anchors.sides[sample, anchor], distance).mean(-1)
    return dict(
        box=BOX * ((1 - complete_iou(true, predicted)) * weight).sum() / total,
        score=SCORE * F.binary_cross_entropy_with_logits(anchors.logits, scores, reduction="sum") / total,
        sides=SIDES * (focal * weight).sum() / total,
    )
