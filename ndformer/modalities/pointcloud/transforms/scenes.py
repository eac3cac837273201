"""Transforms of colored scenes, as in Point Transformer V3's ScanNet recipe.

Colors are 0..255 until UnitColors; clouds without colors pass unchanged. The recipe is CenterPoints(), DropPoints(0.2,
p=0.2), RotatePoints("z", p=0.5), RotatePoints about x and y by 180/64 degrees (p=0.5), ScalePoints((0.9, 1.1)),
FlipPoints(), JitterPoints(), ElasticDistortion(), ContrastColors(), ShiftColors(), JitterColors(), GridSample(0.02),
CropSphere(102400), CenterPoints(up=False, step=0.02), UnitColors(); in evaluation CenterPoints(),
GridSample(0.02, whole=True), CenterPoints(up=False, step=0.02), UnitColors().
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.mixer import Mixer
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MIXERS, TRANSFORMS
from ndformer.framework.registry.ranges import Count, NonNegative, Positive, Share
from ndformer.modalities.pointcloud.transforms.points import select_points
from ndformer.moved import old_names

NODES = 2**25  # of a noise grid, some gigabytes of memory; a flat of 20 x 20 x 5 m needs 2**19


@TRANSFORMS.register_module()
class CenterPoints:
    """Move the center of the bounding box to x = y = 0 and, with `up`, the lowest point to z = 0.

    With `step`, the shift is a whole multiple of it, so that points stay in their cells of a grid of that size.
    """

    former_name = "CentrePoints"

    def __init__(self, up: bool = True, step: Positive | None = None) -> None:
        self.up, self.step = up, step

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points = sample["points"].astype(np.float64)
        low, high = points.min(0), points.max(0)
        shift = np.array([*(low + high)[:2] / 2, low[2] if self.up else 0.0])
        if self.step is not None:
            shift = np.round(shift / self.step) * self.step
        return sample | dict(points=(points - shift).astype(np.float32))


@TRANSFORMS.register_module()
class CropSphere:
    """Keep the `most` points nearest to a random point, or all where there are fewer."""

    def __init__(self, most: Count = 102400) -> None:
        if most < 1:
            raise ValueError(f"CropSphere needs a count of 1 or more, got {most}")
        self.max_points = most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points = sample["points"]
        if len(points) <= self.max_points:
            return sample
        distance = ((points - points[rng.integers(len(points))]) ** 2).sum(1)
        return select_points(sample, np.sort(np.argpartition(distance, self.max_points - 1)[: self.max_points]))


@TRANSFORMS.register_module()
class ElasticDistortion:
    """Distort space by smooth noise with probability `p`.

    For each (spacing, strength), a grid of normal noise is smoothed twice, interpolated at the points and added
    `strength` times.
    """

    def __init__(
        self, scales: Sequence[tuple[Positive, NonNegative]] = ((0.2, 0.4), (0.8, 1.6)), p: Share = 0.95
    ) -> None:
        self.scales, self.p = scales, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p:
            return sample
        kind, points = sample["points"].dtype, sample["points"].astype(np.float64)
        for spacing, strength in self.scales:
            if not (np.ptp(points, 0) // spacing + 3).prod() <= NODES:
                extent = " x ".join(f"{size:.4g}" for size in np.ptp(points, 0))
                raise DataError(
                    f"{sample.get('path', 'the cloud')} spans {extent}, too much for ElasticDistortion's grid of "
                    f"{spacing:g}: give it wider scales, or remove outliers"
                )
            points = points + strength * smooth_noise(points, spacing, rng)
        return sample | dict(points=points.astype(kind))


def smooth_noise(points: np.ndarray, spacing: float, rng: np.random.Generator) -> np.ndarray:
    """Return noise (N, 3) at points (N, 3): a grid around them, blurred and interpolated linearly."""
    low = points.min(0)
    shape = (np.ptp(points, 0) // spacing).astype(int) + 3
    noise = rng.standard_normal((*shape, 3))
    for axis in (0, 1, 2) * 2:
        padded = np.pad(noise, [(1, 1) if a == axis else (0, 0) for a in range(4)])
        before, middle, after = (np.take(padded, range(k, k + noise.shape[axis]), axis) for k in range(3))
        noise = (before + middle + after) / 3
    place = (points - low) / spacing + 1
    cell = np.floor(place).astype(int)
    share = place - cell
    total = np.zeros_like(points)
    for corner in product((0, 1), repeat=3):
        weight = np.where(corner, share, 1 - share).prod(1, keepdims=True)
        x, y, z = (cell + corner).clip(0, shape - 1).T
        total += weight * noise[x, y, z]
    return total


@TRANSFORMS.register_module()
class ContrastColors:
    """With probability `p`, blend colors by a random share with their values stretched to 0..255 in each channel."""

    former_name = "ContrastColours"

    def __init__(self, p: Share = 0.2) -> None:
        self.p = p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p or "colors" not in sample:
            return sample
        colors = sample["colors"]
        low, high = colors.min(0), colors.max(0)
        stretched = np.where(high > low, (colors - low) * (255 / np.maximum(high - low, 1e-6)), colors)
        share = np.float32(rng.random())
        return sample | dict(colors=((1 - share) * colors + share * stretched).astype(np.float32))


@TRANSFORMS.register_module()
class ShiftColors:
    """Shift each color channel of all points by up to `most` of 255 in both directions, with probability `p`."""

    former_name = "ShiftColours"

    def __init__(self, most: NonNegative = 0.05, p: Share = 0.95) -> None:
        self.max_shift, self.p = most, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p or "colors" not in sample:
            return sample
        step = 255 * rng.uniform(-self.max_shift, self.max_shift, 3)
        return sample | dict(colors=(sample["colors"] + step).clip(0, 255).astype(np.float32))


@TRANSFORMS.register_module()
class JitterColors:
    """Add normal noise of deviation `std` of 255 to each color channel of each point, with probability `p`."""

    former_name = "JitterColours"

    def __init__(self, std: NonNegative = 0.05, p: Share = 0.95) -> None:
        self.std, self.p = std, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p or "colors" not in sample:
            return sample
        noise = 255 * self.std * rng.standard_normal(sample["colors"].shape)
        return sample | dict(colors=(sample["colors"] + noise).clip(0, 255).astype(np.float32))


@TRANSFORMS.register_module()
class UnitColors:
    """Scale colors from 0..255 to 0..1."""

    former_name = "UnitColours"

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return sample | dict(colors=sample["colors"] / np.float32(255)) if "colors" in sample else sample


@MIXERS.register_module()
class Mix3D(Mixer):
    """Overlay the scenes of a batch in pairs, 1 with 2, 3 with 4 ..., with probability `p` (Nekrasov 2021).

    So objects are recognized outside of their usual context. The backbone computes the voxels of both together.
    """

    def __init__(self, p: Share = 0.8) -> None:
        self.p = p

    def __call__(self, inputs: dict[str, Any], targets: list[Tensor]) -> tuple[dict[str, Any], list[Tensor]]:
        if torch.rand(()) >= self.p:
            return inputs, targets
        pairs = [slice(i, i + 2) for i in range(0, len(targets), 2)]
        clouds = list(inputs["points"])
        mixed = [torch.cat(clouds[pair]) for pair in pairs]
        return inputs | dict(points=mixed), [torch.cat(targets[pair]) for pair in pairs]


__getattr__ = old_names(
    __name__,
    {
        "CentrePoints": "CenterPoints",
        "ContrastColours": "ContrastColors",
        "ShiftColours": "ShiftColors",
        "JitterColours": "JitterColors",
        "UnitColours": "UnitColors",
    },
)
