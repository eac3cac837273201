"""Task-aligned assignment of anchors to objects (TOOD, Feng 2021)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.losses.boxes import complete_iou

ALPHA, BETA = 0.5, 6.0  # as published


@dataclass(frozen=True, eq=False)
class Objects:
    """The true boxes of B samples, padded to G objects."""

    boxes: Tensor  # (B, G, 4) x1 y1 x2 y2 in pixels
    labels: Tensor  # (B, G)
    real: Tensor  # (B, G) False = padding


@dataclass(frozen=True, eq=False)
class Assignment:
    """The object assigned to each of A anchors."""

    object: Tensor  # (B, A) index of the assigned object; 0 where none
    weight: Tensor  # (B, A) target score, 0 to 1
    chosen: Tensor  # (B, A) bool: an object is assigned, with a weight above 0


@dataclass(frozen=True)
class TaskAligned:
    """Assign to each object the `topk` anchors inside it with the largest score^ALPHA * IoU^BETA.

    An anchor claimed by several objects goes to the one with the largest IoU. When anchors inside an object are
    selected, it is at least `min_side` pixels wide and high: with 0, as in the paper, an object between anchor centers
    is assigned to none.
    """

    topk: int = 10
    min_side: float = 0.0

    @torch.no_grad()
    def __call__(self, scores: Tensor, boxes: Tensor, centers: Tensor, objects: Objects) -> Assignment:
        """Assign objects, given scores (B, A, classes) from 0 to 1 and, in pixels, boxes (B, A, 4) and centers.

        Centers are (A, 2), or (B, A, 2) for samples of different sizes.
        """
        batch, anchors, _ = scores.shape
        if objects.labels.shape[1] == 0:
            zeros = torch.zeros(batch, anchors, dtype=torch.int64, device=scores.device)
            return Assignment(zeros, scores.new_zeros(batch, anchors), zeros.bool())
        inside = self._inside(centers, objects)  # (B, G, A)
        overlap = complete_iou(objects.boxes[:, :, None], boxes[:, None]).clamp(min=0)
        overlap = torch.where(inside, overlap, 0.0)  # (B, G, A)
        label = objects.labels[..., None].expand(-1, -1, anchors)
        score = scores.transpose(1, 2).gather(1, label)  # (B, G, A)
        value = score.pow(ALPHA) * overlap.pow(BETA)

        assigned = _largest(torch.where(inside, value, -1.0), self.topk) & inside
        best = torch.where(inside, overlap, -1.0).argmax(1)  # (B, A) maybe an object that did not claim the anchor
        only = torch.zeros_like(assigned).scatter_(1, best[:, None], True)
        assigned = torch.where((assigned.sum(1) > 1)[:, None], only, assigned)
        value, overlap = value * assigned, overlap * assigned
        scaled = value * (overlap.amax(2, keepdim=True) / (value.amax(2, keepdim=True) + 1e-9))
        weight = scaled.amax(1)
        return Assignment(assigned.to(torch.uint8).argmax(1), weight, weight > 0)

    def _inside(self, centers: Tensor, objects: Objects) -> Tensor:
        """Return (B, G, A): whether an anchor's center lies within an object."""
        centers = centers.unsqueeze(-3)  # (1, A, 2) or (B, 1, A, 2)
        middle = (objects.boxes[..., :2] + objects.boxes[..., 2:]) / 2
        half = (objects.boxes[..., 2:] - objects.boxes[..., :2]) / 2
        low, high = objects.boxes[..., :2], objects.boxes[..., 2:]
        narrow = 2 * half < self.min_side
        low = torch.where(narrow, middle - self.min_side / 2, low)[:, :, None]  # (B, G, 1, 2)
        high = torch.where(narrow, middle + self.min_side / 2, high)[:, :, None]
        margin = torch.minimum(centers - low, high - centers).amin(-1)  # (B, G, A)
        return (margin > 1e-9) & objects.real[..., None]


def _largest(values: Tensor, count: int) -> Tensor:
    """Return (..., A): whether a value is among the `count` largest; ties go to the first, on every device."""
    smallest = values.topk(min(count, values.shape[-1]), -1).values[..., -1:]
    above, equal = values > smallest, values == smallest
    return above | (equal & (equal.cumsum(-1, dtype=torch.int32) <= count - above.sum(-1, keepdim=True)))
