"""What happens to scenes with colours between disk and model, as Point Transformer V3's ScanNet recipe has it.

Colours are 0..255 until UnitColours; clouds without any pass through. The recipe is CentrePoints(), DropPoints(0.2,
p=0.2), RotatePoints("z", p=0.5), RotatePoints about x and y by 180/64 degrees (p=0.5), ScalePoints((0.9, 1.1)),
FlipPoints(), JitterPoints(), ElasticDistortion(), ContrastColours(), ShiftColours(), JitterColours(), GridSample(0.02),
CropSphere(102400), CentrePoints(up=False, step=0.02), UnitColours(); in evaluation CentrePoints(),
GridSample(0.02, whole=True), CentrePoints(up=False, step=0.02), UnitColours().
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Count, NonNegative, Positive, Share
from ndformer.modalities.pointcloud.transforms.points import chosen

NODES = 2**25  # of noise, in the memory of a few gigabytes; a flat of 20 x 20 x 5 m has 2**19


@TRANSFORMS.register_module()
class CentrePoints:
    """The middle of the bounding box to x = y = 0 and, with `up`, the lowest point to z = 0.

    With `step`, by whole multiples of it: a grid of that size keeps the points in the cells in which it found them.
    """

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
    """The `most` points nearest to one of them, drawn at random; all where there are no more."""

    def __init__(self, most: Count = 102400) -> None:
        if most < 1:
            raise ValueError(f"CropSphere keeps 1 point or more, got {most}")
        self.most = most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points = sample["points"]
        if len(points) <= self.most:
            return sample
        distance = ((points - points[rng.integers(len(points))]) ** 2).sum(1)
        return chosen(sample, np.sort(np.argpartition(distance, self.most - 1)[: self.most]))


@TRANSFORMS.register_module()
class ElasticDistortion:
    """Space bent by smooth noise, with probability `p`: for each (spacing, strength) a grid of normal numbers, averaged
    over neighbours twice, is interpolated at the points and added `strength` times."""

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
                reach = " x ".join(f"{size:.4g}" for size in np.ptp(points, 0))
                raise DataError(
                    f"{sample.get('path', 'the cloud')} spans {reach}, too much for ElasticDistortion's grid of "
                    f"{spacing:g}: give it wider scales, or remove outliers"
                )
            points = points + strength * smooth_noise(points, spacing, rng)
        return sample | dict(points=points.astype(kind))


def smooth_noise(points: np.ndarray, spacing: float, rng: np.random.Generator) -> np.ndarray:
    """(N, 3) at points (N, 3): noise on a grid that reaches one step beyond them, blurred and interpolated linearly."""
    low = points.min(0)
    shape = (np.ptp(points, 0) // spacing).astype(int) + 3
    noise = rng.standard_normal((*shape, 3))
    for axis in (0, 1, 2) * 2:
        padded = np.pad(noise, [(1, 1) if a == axis else (0, 0) for a in range(4)])
        before, here, after = (np.take(padded, range(k, k + noise.shape[axis]), axis) for k in range(3))
        noise = (before + here + after) / 3
    at = (points - low) / spacing + 1
    cell = np.floor(at).astype(int)
    share = at - cell
    total = np.zeros_like(points)
    for corner in product((0, 1), repeat=3):
        weight = np.where(corner, share, 1 - share).prod(1, keepdims=True)
        x, y, z = (cell + corner).clip(0, shape - 1).T
        total += weight * noise[x, y, z]
    return total


@TRANSFORMS.register_module()
class ContrastColours:
    """With probability `p`, blended by a random share with what they are when each channel is stretched over 0..255."""

    def __init__(self, p: Share = 0.2) -> None:
        self.p = p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p or "colours" not in sample:
            return sample
        colours = sample["colours"]
        low, high = colours.min(0), colours.max(0)
        stretched = np.where(high > low, (colours - low) * (255 / np.maximum(high - low, 1e-6)), colours)
        share = np.float32(rng.random())
        return sample | dict(colours=((1 - share) * colours + share * stretched).astype(np.float32))


@TRANSFORMS.register_module()
class ShiftColours:
    """One step for all points: up to `most` of 255 to both sides in each channel. With probability `p`."""

    def __init__(self, most: NonNegative = 0.05, p: Share = 0.95) -> None:
        self.most, self.p = most, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p or "colours" not in sample:
            return sample
        step = 255 * rng.uniform(-self.most, self.most, 3)
        return sample | dict(colours=(sample["colours"] + step).clip(0, 255).astype(np.float32))


@TRANSFORMS.register_module()
class JitterColours:
    """Each channel of each point on its own: a normal number of deviation `std` of 255. With probability `p`."""

    def __init__(self, std: NonNegative = 0.05, p: Share = 0.95) -> None:
        self.std, self.p = std, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p or "colours" not in sample:
            return sample
        noise = 255 * self.std * rng.standard_normal(sample["colours"].shape)
        return sample | dict(colours=(sample["colours"] + noise).clip(0, 255).astype(np.float32))


@TRANSFORMS.register_module()
class UnitColours:
    """0..255 to 0..1."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return sample | dict(colours=sample["colours"] / np.float32(255)) if "colours" in sample else sample
