"""What a branch of a YOLO head loses: class scores (BCE), overlap of boxes (CIoU), distances as distributions (DFL)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.losses.assignment import Objects, TaskAligned
from ndformer.framework.losses.boxes import complete_iou, distribution_focal


@dataclass(frozen=True, eq=False)
class Anchors:
    """Predictions of all levels, the finest first, row by row."""

    centres: Tensor  # (A, 2) x y in pixels
    stride: Tensor  # (A,) pixels between neighbours
    logits: Tensor  # (B, A, classes)
    sides: Tensor  # (B, A, 4, R) logits of the distances to left, top, right and bottom, in strides
    boxes: Tensor  # (B, A, 4) x1 y1 x2 y2 in pixels


@dataclass(frozen=True)
class DetectionLoss:
    """Weights of the three parts. Nothing is multiplied by the batch size, as some programs have it."""

    box: float = 7.5
    score: float = 0.5
    sides: float = 1.5

    def __call__(self, anchors: Anchors, objects: Objects, assign: TaskAligned) -> dict[str, Tensor]:
        found = assign(anchors.logits.detach().sigmoid(), anchors.boxes.detach(), anchors.centres, objects)
        sample, anchor = found.chosen.nonzero(as_tuple=True)  # F chosen anchors
        which, weight = found.object[sample, anchor], found.weight[sample, anchor]
        scores = anchors.logits.new_zeros(anchors.logits.shape)
        scores[sample, anchor, objects.labels[sample, which]] = weight
        total = weight.sum().clamp(min=1)

        stride = anchors.stride[anchor, None]
        own, true = anchors.boxes[sample, anchor] / stride, objects.boxes[sample, which] / stride  # (F, 4)
        centre = anchors.centres[anchor] / stride
        distance = torch.cat([centre - true[:, :2], true[:, 2:] - centre], -1)  # to the left and top, right and bottom
        apart = distribution_focal(anchors.sides[sample, anchor], distance).mean(-1)
        return dict(
            box=self.box * ((1 - complete_iou(true, own)) * weight).sum() / total,
            score=self.score * F.binary_cross_entropy_with_logits(anchors.logits, scores, reduction="sum") / total,
            sides=self.sides * (apart * weight).sum() / total,
        )
