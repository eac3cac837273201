"""Transforms of point clouds. Lengths are in the data's unit, angles in degrees.

A transform is called as t(sample, rng), and all randomness comes from `rng`. It changes sample["points"] (n, 3) and, if
present, sample["normals"] and sample["colors"] (n, 3) and sample["labels"] (n,). PackPoints joins the features it
names in one tensor.

The ModelNet40 recipe of Point Transformer V3 is: NormalizePoints(), ScalePoints((0.7, 1.5), per_axis=True),
ShiftPoints(0.2), GridSample(0.01), ShufflePoints(); in evaluation NormalizePoints(), GridSample(0.01).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Count, Degrees, Finite, NonNegative, Positive, Rate, Share, Span
from ndformer.framework.registry.renamed import SAMPLE_KEYS, Renamed
from ndformer.modalities.pointcloud.formats.columns import byte_colors
from ndformer.modalities.pointcloud.pictures import labeled
from ndformer.modalities.pointcloud.pictures.clouds import draw
from ndformer.modalities.pointcloud.sampling import farthest

POINT_ROWS = ("points", "normals", "colors", "labels")  # arrays with a row for each point
DIRECTED = ("points", "normals")  # arrays that rotate with the cloud

MAX_ROUNDING = 1e-4  # rounding error of float32 positions, as a share of the cloud's size
DISTANCES = 2**31  # distances that farthest point sampling may compute for one cloud: some seconds


def select_points(sample: Sample, index: np.ndarray) -> Sample:
    """Return the sample with the points of an index, in its order."""
    if "inverse" in sample:
        raise DataError(
            "expected GridSample(whole=True) after all transforms that select or reorder points, got one after it: "
            "predictions would go to other points. Move it, or remove `whole`"
        )
    return sample | {name: sample[name][index] for name in POINT_ROWS if name in sample}


def transform_directed(sample: Sample, matrix: np.ndarray) -> Sample:
    """Return the sample with points and normals multiplied by a rotation or mirroring."""
    return sample | {name: sample[name] @ matrix.T.astype(np.float32) for name in DIRECTED if name in sample}


@TRANSFORMS.register_module()
class SamplePoints:
    """Sample `count` points: at random, or by farthest point sampling, which covers a cloud evenly.

    Farthest points are computed once and cached where this is the first transform of a dataset.
    """

    def __init__(self, count: Count, method: Literal["random", "farthest"] = "random") -> None:
        if count < 1:
            raise ValueError(f"SamplePoints needs a count of 1 or more, got {count}")
        self.count, self.method = count, method

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points = sample["points"]
        if len(points) < self.count:
            raise DataError(
                f"{sample.get('path', 'the cloud')} has {len(points)} points, fewer than the {self.count} of "
                "SamplePoints: lower its count or remove the cloud"
            )
        if self.method == "random":
            return select_points(sample, rng.permutation(len(points))[: self.count])
        if len(points) * self.count > DISTANCES:
            raise DataError(
                f"{sample.get('path', 'the cloud')} has {len(points):,} points, whose farthest {self.count} take too "
                f"long to find: put SamplePoints(count={DISTANCES // self.count}) before, which takes some at random"
            )
        middle = 0 if points.dtype == np.float32 else points.mean(0)  # float32 is too coarse far from the origin
        centered_points = np.asarray(points - middle, np.float32)
        return select_points(sample, farthest(torch.from_numpy(centered_points)[None], self.count)[0].numpy())


@TRANSFORMS.register_module()
class NormalizePoints:
    """Center the points at their mean and scale the farthest to distance 1."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points = sample["points"] - sample["points"].mean(0, dtype=np.float64)
        radius = np.linalg.norm(points, axis=1).max()
        if not radius > 0:
            raise DataError(
                f"all points of {sample.get('path', 'the cloud')} are at one place, so it has no size: remove it"
            )
        return sample | dict(points=(points / radius).astype(np.float32))


@TRANSFORMS.register_module()
class ScalePoints:
    """Scale by a factor within `scale`, the same or one for each axis. Normals are unchanged, as in the recipe."""

    def __init__(self, scale: Span = (0.7, 1.5), per_axis: bool = False) -> None:
        self.scale, self.per_axis = scale, per_axis

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        factor = rng.uniform(*self.scale, size=3 if self.per_axis else 1)
        return sample | dict(points=sample["points"] * factor.astype(np.float32))


@TRANSFORMS.register_module()
class ShiftPoints:
    """Shift all points by up to `most` along each axis."""

    def __init__(self, most: NonNegative = 0.2) -> None:
        self.max_shift = most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        step = rng.uniform(-self.max_shift, self.max_shift, 3)
        return sample | dict(points=sample["points"] + step.astype(np.float32))


@TRANSFORMS.register_module()
class RotatePoints:
    """Rotate about an axis through the origin by up to `degrees` in both directions, with probability `p`."""

    def __init__(self, axis: Literal["x", "y", "z"] = "z", degrees: Degrees = 180.0, p: Share = 1.0) -> None:
        self.axis, self.degrees, self.p = axis, degrees, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p:
            return sample
        angle = np.radians(rng.uniform(-self.degrees, self.degrees))
        first, second = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[self.axis]  # the plane, right-handed
        matrix = np.eye(3)
        matrix[[first, second], [first, second]] = np.cos(angle)
        matrix[second, first], matrix[first, second] = np.sin(angle), -np.sin(angle)
        return transform_directed(sample, matrix)


@TRANSFORMS.register_module()
class FlipPoints:
    """Flip the sign of each of the `axes` with probability `p`."""

    def __init__(self, axes: str = "xy", p: Share = 0.5) -> None:
        if not set(axes) <= set("xyz"):
            raise ValueError(f"axes must be some of x, y and z, got '{axes}'")
        self.axes, self.p = axes, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        flipped = rng.random(3) < self.p
        return transform_directed(
            sample, np.diag([-1.0 if name in self.axes and f else 1.0 for name, f in zip("xyz", flipped)])
        )


@TRANSFORMS.register_module()
class JitterPoints:
    """Add normally distributed noise to each coordinate, clipped at `most`."""

    def __init__(self, std: NonNegative = 0.005, most: NonNegative = 0.02) -> None:
        self.std, self.max_step = std, most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        noise = rng.normal(0, self.std, sample["points"].shape).clip(-self.max_step, self.max_step)
        return sample | dict(points=sample["points"] + noise.astype(np.float32))


@TRANSFORMS.register_module()
class DropPoints:
    """Drop a random `share` of the points, with probability `p`."""

    def __init__(self, share: Rate = 0.2, p: Share = 0.2) -> None:
        self.share, self.p = share, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p:
            return sample
        n = len(sample["points"])
        return select_points(sample, rng.permutation(n)[: max(1, int(n * (1 - self.share)))])


@TRANSFORMS.register_module()
class ShufflePoints:
    """Shuffle the order of the points."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return select_points(sample, rng.permutation(len(sample["points"])))


@TRANSFORMS.register_module()
class GridSample:
    """Voxel grid sampling: keep one random point in each cell of a grid with cells of `size`.

    With `whole`, the sample also has the index of the sampled point for each original point (`inverse`) and the labels
    of all points (`whole_labels`), so that predictions can be made for all points.
    """

    def __init__(self, size: Positive = 0.01, whole: bool = False) -> None:
        if size <= 0:
            raise ValueError(f"the cells of GridSample must have a size above 0, got {size}")
        self.size, self.store_inverse = size, whole

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        cell = cells(sample["points"], self.size, sample.get("path", "the cloud"))
        order = rng.permutation(len(cell))
        _, first, inverse = np.unique(cell[order], return_index=True, return_inverse=True)
        sampled = select_points(sample, order[first])
        if not self.store_inverse:
            return sampled
        back = np.empty_like(inverse)
        back[order] = inverse
        all_labels = dict(whole_labels=sample["labels"]) if "labels" in sample else {}
        return sampled | dict(inverse=back, **all_labels)


def cells(points: np.ndarray, size: float, name: str) -> np.ndarray:
    """Return the cell number of each point (N,), computed in float64 to agree with the voxels of backbones."""
    grid = np.floor(points.astype(np.float64) / size)
    grid -= grid.min(0)
    shape = grid.max(0) + 1
    if not shape.prod() < 2**62:  # true for NaN too
        raise DataError(
            f"{name} spans {' x '.join(f'{n:.0f}' for n in shape)} cells of {size:g}, too many to number: take "
            "a larger size, or remove outliers"
        )
    return np.asarray(np.ravel_multi_index(tuple(grid.astype(np.int64).T), tuple(shape.astype(np.int64))))


def display_colors(cloud: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the cloud's colors (n, 3) uint8, from 0..255 or 0..1; None without colors, or with a single one."""
    if "colors" not in cloud or not np.ptp(cloud["colors"], 0).any():
        return None
    return byte_colors(cloud["colors"].clip(0, 255)).round().astype(np.uint8)


@TRANSFORMS.register_module()
class PackPoints(Pack):
    """Pack points and features as a float32 tensor (n, 3 + features) (the last transform).

    `features` are some of normals and colors, in this order. `missing` has the fill value of features that a cloud
    lacks, such as dict(colors=0.5).
    """

    input_name = "points"
    renamed_options: ClassVar[Mapping[str, Renamed]] = {n: Renamed(n, SAMPLE_KEYS) for n in ("features", "missing")}

    def __init__(self, features: Sequence[str] = ("normals",), missing: dict[str, Finite] | None = None) -> None:
        self.features, self.missing = list(features), missing or {}

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """Draw the cloud of a sample, packed or not, from three sides: (size, 3 size, 3) uint8."""
        cloud = self.unpacked(sample["inputs"]["points"].numpy()) if "inputs" in sample else sample
        places = np.concatenate([cloud[name] for name in DIRECTED if name in cloud], axis=1)
        up = "z" if "colors" in cloud else "y"  # colored clouds are scans, which have z up
        return np.asarray(draw(places, display_colors(cloud), size=size, up=up))

    def unpacked(self, packed: np.ndarray) -> dict[str, np.ndarray]:
        """Return points and features by name from a packed tensor (n, 3 + features)."""
        return dict(points=packed[:, :3]) | {n: packed[:, 3 * i : 3 * i + 3] for i, n in enumerate(self.features, 1)}

    def write_labeled(self, stem: Path, sample: Sample, labels: np.ndarray, classes: Sequence[str]) -> None:
        """Write STEM.png, STEM_prediction.ply, and where labels are known STEM_truth.ply and STEM_error.ply."""
        if len(labels) != len(sample["points"]):
            raise DataError(
                f"{sample.get('path', 'a sample')} has {len(sample['points'])} points, but {len(labels)} predictions: "
                "set whole=True for GridSample in the transforms of the test set"
            )
        labeled.write(stem, sample, labels, classes)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points, columns = sample["points"], []
        rounding = np.abs(points).max() * 2**-24  # half the distance between neighbors in float32
        if points.dtype == np.float64 and rounding > MAX_ROUNDING * np.ptp(points, 0).max():
            raise DataError(
                f"{sample.get('path', 'the cloud')} is {np.abs(points).max():.4g} from the origin, where float32 "
                f"positions are exact to {rounding:.2g} only: put CenterPoints or NormalizePoints before PackPoints"
            )
        for name in ("points", *self.features):
            if name not in sample and name not in self.missing:
                remedy = "; EstimateNormals before it makes some" if name == "normals" else ""
                raise DataError(
                    f"{sample.get('path', 'the cloud')} has no {name}, which PackPoints should pack: give its "
                    f"missing=dict({name}=0.0) a fill value, or remove them from its features and the "
                    f"model's{remedy}"
                )
            columns.append(sample[name] if name in sample else np.full_like(points, self.missing[name]))
        packed = torch.from_numpy(np.concatenate(columns, axis=1).astype(np.float32))
        data_sample = {name: value for name, value in sample.items() if name == "labels" or name not in POINT_ROWS}
        return dict(inputs=dict(points=packed), data_sample=data_sample)
