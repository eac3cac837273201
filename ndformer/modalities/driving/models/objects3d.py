"""True 3-D boxes of a batch (x, y, z, width, length, height, yaw, vx, vy) and CenterPoint's heatmap loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.losses.labels import checked
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.system.processes import shared_divisor
from ndformer.modalities.driving.models.bev_grid import BEVGrid

MIN_RADIUS, OVERLAP = 2, 0.1  # of an object's peak in the heatmap: cells; IoU of boxes with corners in its radius


@dataclass(frozen=True, eq=False)
class Objects3D:
    """The true boxes of B samples, padded to K objects. Unknown velocities are NaN."""

    boxes: Tensor  # (B, K, 9)
    labels: Tensor  # (B, K)
    real: Tensor  # (B, K) False = padding

    @classmethod
    def from_samples(cls, samples: Sequence[dict[str, Any]], classes: int, device: torch.device) -> Objects3D:
        """Pad and stack data samples with `boxes` (k, 9) and `classes` (k,), where k may differ or be 0."""
        count = max([len(sample["classes"]) for sample in samples], default=0)
        boxes = torch.zeros(len(samples), count, 9)
        labels = torch.zeros(len(samples), count, dtype=torch.int64)
        real = torch.zeros(len(samples), count, dtype=torch.bool)
        for i, sample in enumerate(samples):
            n = len(checked(sample["classes"], classes, sample))
            values = sample["boxes"].reshape(-1, 9).float()
            valid = values[:, :7].isfinite().all(1) & (values[:, 3:6] > 0).all(1)
            if len(values) != n or not bool(valid.all()):
                name = sample.get("path", f"sample {i}")
                raise DataError(
                    f"boxes of {name}: expected {n}, one per class label, with finite positions and sizes above 0, "
                    f"got {len(values)}, {int((~valid).sum())} of them invalid. Remove or correct the invalid boxes."
                )
            boxes[i, :n], labels[i, :n], real[i, :n] = values, sample["classes"], True
        return cls(*(x.to(device, non_blocking=True) for x in (boxes, labels, real)))


def peaks(objects: Objects3D, grid: BEVGrid, classes: int) -> Tensor:
    """Return target heatmaps (B, classes, ny, nx): a Gaussian around the center cell of each object, with peak 1.

    Overlapping Gaussians are combined by their maximum. The radius is CornerNet's: boxes with corners within it have an
    IoU of at least OVERLAP. Objects outside the map are left out.
    """
    position = grid.to_cells(objects.boxes)  # (B, K, 2)
    width, length = objects.boxes[..., 3] / grid.step, objects.boxes[..., 4] / grid.step
    radius = corner_radius(length, width, OVERLAP).floor().clamp(min=MIN_RADIUS)  # (B, K)
    sigma = (2 * radius + 1) / 6
    inside = objects.real & grid.contains(position)
    middle = position.floor()
    B, K = inside.shape
    maps = position.new_zeros(B, classes, *grid.shape)
    y, x = (torch.arange(n, device=position.device, dtype=position.dtype) for n in grid.shape)
    for k in range(K):  # a loop, because K maps per sample would not fit in memory
        dx, dy = x - middle[:, k, :1], y - middle[:, k, 1:]  # (B, nx), (B, ny)
        near_x, near_y = dx.abs() <= radius[:, k, None], dy.abs() <= radius[:, k, None]
        twice = 2 * sigma[:, k, None] ** 2
        bell_x, bell_y = (-(dx**2) / twice).exp() * near_x, (-(dy**2) / twice).exp() * near_y
        bell = bell_y[:, :, None] * bell_x[:, None] * inside[:, k, None, None]
        label = objects.labels[:, k, None, None, None].expand(B, 1, *grid.shape)
        maps = maps.scatter_reduce(1, label, bell[:, None], "amax")
    return maps


def corner_radius(length: Tensor, width: Tensor, overlap: float) -> Tensor:
    """Return how far both corners of a box may move such that its IoU with the true one stays at least `overlap`.

    The formula is that of CornerNet's code (Law & Deng 2018), which divides the roots by 2 instead of 2a.
    """
    total, area = length + width, length * width
    roots = []
    for a, b, c in (
        (1.0, total, area * (1 - overlap) / (1 + overlap)),
        (4.0, 2 * total, (1 - overlap) * area),
        (4 * overlap, -2 * overlap * total, (overlap - 1) * area),
    ):
        roots.append((b + (b * b - 4 * a * c).sqrt()) / 2)
    return torch.stack(roots).amin(0)


def peak_focal(logits: Tensor, target: Tensor) -> Tensor:
    """Return CornerNet's focal loss of heatmaps (alpha 2, gamma 4), divided by the number of peaks."""
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    peak = target == 1
    positive = -(p.log() * (1 - p) ** 2).masked_fill(~peak, 0).sum()
    negative = -((1 - p).log() * p**2 * (1 - target) ** 4).masked_fill(peak, 0).sum()
    return (positive + negative) / shared_divisor(peak.sum())


def local_maxima(scores: Tensor, sharp: Sequence[int] = ()) -> Tensor:
    """Set scores (B, classes, ny, nx) to 0 where one of the 8 neighbors is larger; `sharp` classes stay unchanged."""
    mask = scores == torch.nn.functional.max_pool2d(scores, 3, 1, 1)
    if len(sharp):
        mask = mask.index_fill(1, tensor_like(list(sharp), scores), True)
    return scores * mask


def encode_boxes(boxes: Tensor, grid: BEVGrid) -> Tensor:
    """Return boxes (..., 9) as codes (..., 10): x and y in cells, z, log sizes, sin and cos of yaw, velocity."""
    yaw, sizes = boxes[..., 6:7], boxes[..., 3:6].clamp(min=1e-6).log()  # sizes of padding are 0
    return torch.cat([grid.to_cells(boxes), boxes[..., 2:3], sizes, yaw.sin(), yaw.cos(), boxes[..., 7:]], -1)


def decode_boxes(code: Tensor, grid: BEVGrid) -> Tensor:
    """Return the boxes (..., 9) of codes (..., 10), the inverse of encode_boxes()."""
    center = code[..., :2] * grid.step + tensor_like(grid.low, code)
    yaw = torch.atan2(code[..., 6:7], code[..., 7:8])
    return torch.cat([center, code[..., 2:3], code[..., 3:6].clamp(max=6).exp(), yaw, code[..., 8:]], -1)
