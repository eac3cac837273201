"""Objects in space that a batch should find: x, y, z, width, length, height, yaw, vx, vy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.bev_grid import Field
from ndformer.framework.errors import DataError
from ndformer.framework.losses.labels import checked
from ndformer.framework.system.devices import sent

LEAST = 2  # cells, the radius of the smallest object's peak


@dataclass(frozen=True, eq=False)
class Objects3D:
    """Padded to as many as the fullest sample has. Velocities that nobody knows are NaN."""

    boxes: Tensor  # (B, K, 9)
    labels: Tensor  # (B, K)
    real: Tensor  # (B, K) False = padding

    @classmethod
    def from_samples(cls, samples: Sequence[dict[str, Any]], classes: int, device: torch.device) -> Objects3D:
        """Of data samples with `boxes` (K, 9) and `classes` (K,); each with as many as it has, or none."""
        count = max([len(sample["classes"]) for sample in samples], default=0)
        boxes = torch.zeros(len(samples), count, 9)
        labels = torch.zeros(len(samples), count, dtype=torch.int64)
        real = torch.zeros(len(samples), count, dtype=torch.bool)
        for i, sample in enumerate(samples):
            own = len(checked(sample["classes"], classes, sample))
            given = sample["boxes"].reshape(-1, 9).float()
            sound = given[:, :7].isfinite().all(1) & (given[:, 3:6] > 0).all(1)
            if len(given) != own or not bool(sound.all()):
                who = sample.get("path", f"sample {i}")
                raise DataError(
                    f"boxes of {who} are not (number, 9) of finite places and sizes above 0, one for each of its "
                    f"{own} classes: remove what is none"
                )
            boxes[i, :own], labels[i, :own], real[i, :own] = given, sample["classes"], True
        return cls(*(each.to(device, non_blocking=True) for each in (boxes, labels, real)))


def peaks(objects: Objects3D, grid: Field, classes: int, overlap: float = 0.1) -> Tensor:
    """(B, classes, ny, nx): 1 in the cell of each object's middle, a Gaussian about it; the largest where several meet.

    CornerNet's radius: any box whose corners are so near overlaps by `overlap` or more. Objects beside the map have
    none.
    """
    at = grid.at(objects.boxes)  # (B, K, 2)
    width, length = objects.boxes[..., 3] / grid.step, objects.boxes[..., 4] / grid.step
    radius = corner_radius(length, width, overlap).floor().clamp(min=LEAST)  # (B, K)
    sigma = (2 * radius + 1) / 6
    there = objects.real & grid.inside(at)
    middle = at.floor()
    B, K = there.shape
    maps = at.new_zeros(B, classes, *grid.shape)
    y, x = (torch.arange(n, device=at.device, dtype=at.dtype) for n in grid.shape)
    for k in range(K):  # all samples at once: K maps of a batch would not fit
        dx, dy = x - middle[:, k, :1], y - middle[:, k, 1:]  # (B, nx), (B, ny)
        near_x, near_y = dx.abs() <= radius[:, k, None], dy.abs() <= radius[:, k, None]
        twice = 2 * sigma[:, k, None] ** 2
        bell_x, bell_y = (-(dx**2) / twice).exp() * near_x, (-(dy**2) / twice).exp() * near_y
        bell = bell_y[:, :, None] * bell_x[:, None] * there[:, k, None, None]
        own = objects.labels[:, k, None, None, None].expand(B, 1, *grid.shape)
        maps = maps.scatter_reduce(1, own, bell[:, None], "amax")
    return maps


def corner_radius(length: Tensor, width: Tensor, overlap: float) -> Tensor:
    """The radius of Law & Deng 2018 in the form of their code, whose roots are divided by 2 whatever the factor is."""
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
    """The focal loss of peaks (CornerNet's, alpha 2, gamma 4), over the number of peaks."""
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    peak = target == 1
    positive = -(p.log() * (1 - p) ** 2).masked_fill(~peak, 0).sum()
    negative = -((1 - p).log() * p**2 * (1 - target) ** 4).masked_fill(peak, 0).sum()
    return (positive + negative) / peak.sum().clamp(min=1)


def local_maxima(scores: Tensor, sharp: Sequence[int] = ()) -> Tensor:
    """(B, classes, ny, nx) scores, 0 where a neighbour in the same map has a larger one; not in classes `sharp`."""
    largest = torch.nn.functional.max_pool2d(scores, 3, 1, 1)
    kept = scores == largest
    if len(sharp):
        kept = kept.index_fill(1, sent(list(sharp), scores), True)
    return scores * kept
