"""Hungarian assignment of one query per object (DETR, Carion 2020), and TransFusion's losses of the pairs."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.system.devices import tensor_like
from ndformer.framework.system.processes import shared_divisor
from ndformer.modalities.driving.models.bev_grid import BEVGrid
from ndformer.modalities.driving.models.boxes3d import distance_iou, iou_3d
from ndformer.modalities.driving.models.objects3d import Objects3D, encode_boxes

ALPHA, GAMMA = 0.25, 2.0  # of the focal loss
# weights of the costs of an assignment, and of the losses of its pairs
COSTS = dict(score=0.15, distance=0.25, overlap=0.25)
LOSSES = dict(score=1.0, box=0.25, iou=0.5, overlap=0.5)
VELOCITY = 0.2  # of a velocity, relative to the other numbers of a box


class Pairs(NamedTuple):
    """P pairs of a query and the object assigned to it, as indices."""

    sample: Tensor  # (P,)
    query: Tensor  # (P,)
    object: Tensor  # (P,)


@torch.no_grad()
def match(logits: Tensor, boxes: Tensor, objects: Objects3D, grid: BEVGrid) -> Pairs:
    """Assign the objects of each sample to its queries (B, Q, ...) at the lowest total cost (Hungarian assignment).

    Synchronizes with the device once, for all samples.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    cost = costs(logits, boxes, objects, grid).nan_to_num(1e4, 1e4, -1e4).cpu().numpy()  # (B, Q, K)
    real = objects.real.cpu().numpy()
    pairs = []
    for b, (sample_cost, mask) in enumerate(zip(cost, real)):
        numbers = mask.nonzero()[0]
        queries, chosen = linear_sum_assignment(sample_cost[:, numbers])
        pairs += [(b, int(q), int(numbers[o])) for q, o in zip(queries, chosen)]
    columns = tensor_like(torch.tensor(pairs, dtype=torch.int64), logits).reshape(-1, 3).unbind(1)
    return Pairs(*columns)


def costs(logits: Tensor, boxes: Tensor, objects: Objects3D, grid: BEVGrid) -> Tensor:
    """Return the cost (B, Q, K) of every pair of a query and an object.

    It is the weighted sum of a focal class cost, the L1 distance of the centers on a map of size 1, and minus the 3-D
    IoU.
    """
    p = logits.float().sigmoid()
    positive = ALPHA * (1 - p) ** GAMMA * -(p + 1e-12).log()
    negative = (1 - ALPHA) * p**GAMMA * -(1 - p + 1e-12).log()
    label = objects.labels[:, None].expand(-1, p.shape[1], -1)
    score = (positive - negative).gather(2, label)
    size = tensor_like(grid.shape[::-1], boxes) * grid.step
    distance = ((boxes[:, :, None, :2] - objects.boxes[:, None, :, :2]) / size).abs().sum(-1)
    iou = iou_3d(boxes[:, :, None, :7], objects.boxes[:, None, :, :7])
    return COSTS["score"] * score + COSTS["distance"] * distance - COSTS["overlap"] * iou


def pair_losses(
    logits: Tensor, boxes: Tensor, code: Tensor, iou: Tensor, objects: Objects3D, pairs: Pairs, grid: BEVGrid
) -> dict[str, Tensor]:
    """Return the weighted losses of queries, divided by the number of pairs.

    `score`: focal loss of classes. `box`: L1 of box codes, with velocities weighted by VELOCITY. `iou`: L1 of the
    predicted 2 IoU - 1. `overlap`: DIoU.
    """
    count = shared_divisor(pairs.sample.new_full((), len(pairs.sample)))
    chosen = (pairs.sample, pairs.query)
    truth = objects.boxes[pairs.sample, pairs.object]  # (P, 9)
    target = torch.zeros_like(logits)
    target[(*chosen, objects.labels[pairs.sample, pairs.object])] = 1
    error = (code[chosen] - encode_boxes(truth, grid)) * tensor_like([1.0] * 8 + [VELOCITY] * 2, code)
    known = error.isfinite()  # velocities may be NaN
    predicted = boxes[chosen]
    with torch.no_grad():
        iou_target = 2 * iou_3d(predicted[:, :7], truth[:, :7]) - 1
    sums = dict(
        score=focal(logits, target).sum(),
        box=torch.where(known, error, 0.0).abs().sum(),
        iou=(iou[chosen] - iou_target).abs().sum(),
        overlap=(1 - distance_iou(predicted[:, :7], truth[:, :7])).sum(),
    )
    return {name: LOSSES[name] * total / count for name, total in sums.items()}


def focal(logits: Tensor, target: Tensor) -> Tensor:
    """Return the elementwise sigmoid focal loss (Lin 2017)."""
    p = logits.sigmoid()
    right = p * target + (1 - p) * (1 - target)
    weight = ALPHA * target + (1 - ALPHA) * (1 - target)
    return weight * (1 - right) ** GAMMA * F.binary_cross_entropy_with_logits(logits, target, reduction="none")
