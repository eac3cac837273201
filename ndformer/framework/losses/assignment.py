"""Which predictions learn which object: those that already find it best (task-aligned assignment, Feng 2021)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.losses.boxes import complete_iou


@dataclass(frozen=True, eq=False)
class Objects:
    """What is there, for B samples padded to G objects."""

    boxes: Tensor  # (B, G, 4) x1 y1 x2 y2 in pixels
    labels: Tensor  # (B, G)
    real: Tensor  # (B, G) False = padding


@dataclass(frozen=True, eq=False)
class Assignment:
    object: Tensor  # (B, A) which object of its sample an anchor learns; 0 where none
    weight: Tensor  # (B, A) what its score should be, 0 to 1
    chosen: Tensor  # (B, A) bool


@dataclass(frozen=True)
class TaskAligned:
    """Task-aligned assignment: each object takes the `most` anchors inside it with the largest score^alpha * IoU^beta.

    `keep` of them remain after those that several objects wanted are settled, all where it is None. An object narrower
    than `least_side` pixels counts as that wide when anchors inside it are looked for: 0 in the paper, where an object
    between the centres of anchors is learned by none.
    """

    most: int = 10
    keep: int | None = None
    alpha: float = 0.5
    beta: float = 6.0
    least_side: float = 0.0

    @torch.no_grad()
    def __call__(self, scores: Tensor, boxes: Tensor, centres: Tensor, objects: Objects) -> Assignment:
        """Scores (B, A, classes) from 0 to 1, boxes (B, A, 4) and centres (A, 2) of all anchors, in pixels."""
        batch, anchors, _ = scores.shape
        if objects.labels.shape[1] == 0:
            none = torch.zeros(batch, anchors, dtype=torch.int64, device=scores.device)
            return Assignment(none, scores.new_zeros(batch, anchors), none.bool())
        inside = self._inside(centres, objects)  # (B, G, A)
        overlap = complete_iou(objects.boxes[:, :, None], boxes[:, None]).clamp(min=0)
        overlap = torch.where(inside, overlap, 0.0)  # (B, G, A)
        label = objects.labels[..., None].expand(-1, -1, anchors)
        score = scores.transpose(1, 2).gather(1, label)  # (B, G, A)
        value = score.pow(self.alpha) * overlap.pow(self.beta)

        wanted = _largest(torch.where(inside, value, -1.0), self.most) & inside
        best = torch.where(inside, overlap, -1.0).argmax(1)  # (B, A) also an object that did not want the anchor
        only = torch.zeros_like(wanted).scatter_(1, best[:, None], True)
        wanted = torch.where((wanted.sum(1) > 1)[:, None], only, wanted)
        value, overlap = value * wanted, overlap * wanted
        if self.keep is not None:
            wanted = wanted & _largest(torch.where(wanted, value, -1.0), self.keep)
            value, overlap = value * wanted, overlap * wanted

        scaled = value * (overlap.amax(2, keepdim=True) / (value.amax(2, keepdim=True) + 1e-9))
        return Assignment(wanted.to(torch.uint8).argmax(1), scaled.amax(1), wanted.any(1))

    def _inside(self, centres: Tensor, objects: Objects) -> Tensor:
        """(B, G, A) whether an anchor's centre lies within an object."""
        middle = (objects.boxes[..., :2] + objects.boxes[..., 2:]) / 2
        half = (objects.boxes[..., 2:] - objects.boxes[..., :2]) / 2
        low, high = objects.boxes[..., :2], objects.boxes[..., 2:]
        narrow = 2 * half < self.least_side
        low = torch.where(narrow, middle - self.least_side / 2, low)[:, :, None]  # (B, G, 1, 2)
        high = torch.where(narrow, middle + self.least_side / 2, high)[:, :, None]
        margin = torch.minimum(centres - low, high - centres).amin(-1)  # (B, G, A)
        return (margin > 1e-9) & objects.real[..., None]


def _largest(values: Tensor, count: int) -> Tensor:
    """(..., A) whether a value is among the `count` largest; of equal ones the first, on every device."""
    least = values.topk(min(count, values.shape[-1]), -1).values[..., -1:]
    above, equal = values > least, values == least
    return above | (equal & (equal.cumsum(-1, dtype=torch.int32) <= count - above.sum(-1, keepdim=True)))
