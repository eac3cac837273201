"""What happens to a cloud between disk and model. Lengths are in the data's unit, angles in degrees.

Every transform is called as t(sample, rng), and all chance comes from `rng`. sample["points"] (n, 3) and, where there
are some, sample["normals"] and sample["colours"] (n, 3) and sample["labels"] (n,) change; with PackPoints those that it
names become a tensor.

The ModelNet40 recipe of Point Transformer V3 is: NormalizePoints(), ScalePoints((0.7, 1.5), per_axis=True),
ShiftPoints(0.2), GridSample(0.01), ShufflePoints(); in evaluation NormalizePoints(), GridSample(0.01).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Count, Degrees, Finite, NonNegative, Positive, Rate, Share, Span
from ndformer.modalities.pointcloud.formats.columns import in_bytes
from ndformer.modalities.pointcloud.pictures import labelled
from ndformer.modalities.pointcloud.pictures.clouds import draw
from ndformer.modalities.pointcloud.sampling import farthest

OF_POINTS = ("points", "normals", "colours", "labels")  # what has a row for each point
DIRECTED = ("points", "normals")  # what turns with the cloud

LOST = 1e-4  # of a cloud's size: what float32 may take from positions
DISTANCES = 2**31  # that may be computed for the farthest points of one cloud: some seconds


def chosen(sample: Sample, index: np.ndarray) -> Sample:
    """The cloud of some of the points, in that order."""
    return sample | {name: sample[name][index] for name in OF_POINTS if name in sample}


def turned(sample: Sample, matrix: np.ndarray) -> Sample:
    """Points and normals times a rotation or mirroring."""
    return sample | {name: sample[name] @ matrix.T.astype(np.float32) for name in DIRECTED if name in sample}


@TRANSFORMS.register_module()
class SamplePoints:
    """`count` of the points: at random, or each the farthest from all before it, which covers a cloud evenly.

    As a dataset's first transform, farthest points are found once and kept.
    """

    def __init__(self, count: Count, method: Literal["random", "farthest"] = "random") -> None:
        if count < 1:
            raise ValueError(f"SamplePoints keeps 1 point or more, got {count}")
        self.count, self.method = count, method

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points = sample["points"]
        if len(points) < self.count:
            raise DataError(
                f"{sample.get('path', 'the cloud')} has {len(points)} points, fewer than the {self.count} of "
                "SamplePoints: lower its count or take the cloud away"
            )
        if self.method == "random":
            return chosen(sample, rng.permutation(len(points))[: self.count])
        if len(points) * self.count > DISTANCES:
            raise DataError(
                f"{sample.get('path', 'the cloud')} has {len(points):,} points, whose farthest {self.count} take too "
                f"long to find: put SamplePoints(count={DISTANCES // self.count}) before, which takes some at random"
            )
        middle = 0 if points.dtype == np.float32 else points.mean(0)  # of positions that float32 would not tell apart
        near = np.asarray(points - middle, np.float32)
        return chosen(sample, farthest(torch.from_numpy(near)[None], self.count)[0].numpy())


@TRANSFORMS.register_module()
class NormalizePoints:
    """The mean of the points to 0, the farthest of them to 1."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points = sample["points"] - sample["points"].mean(0, dtype=np.float64)
        radius = np.linalg.norm(points, axis=1).max()
        if not radius > 0:
            raise DataError(
                f"all points of {sample.get('path', 'the cloud')} are at one place, so it has no size: take it away"
            )
        return sample | dict(points=(points / radius).astype(np.float32))


@TRANSFORMS.register_module()
class ScalePoints:
    """Times a factor within `scale`, one or one per axis. Normals stay as they are, as in the recipe."""

    def __init__(self, scale: Span = (0.7, 1.5), per_axis: bool = False) -> None:
        self.scale, self.per_axis = scale, per_axis

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        factor = rng.uniform(*self.scale, size=3 if self.per_axis else 1)
        return sample | dict(points=sample["points"] * factor.astype(np.float32))


@TRANSFORMS.register_module()
class ShiftPoints:
    """Up to `most` along each axis."""

    def __init__(self, most: NonNegative = 0.2) -> None:
        self.most = most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        step = rng.uniform(-self.most, self.most, 3)
        return sample | dict(points=sample["points"] + step.astype(np.float32))


@TRANSFORMS.register_module()
class RotatePoints:
    """About an axis through the origin, by up to `degrees` to both sides, with probability `p`."""

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
        return turned(sample, matrix)


@TRANSFORMS.register_module()
class FlipPoints:
    """Each of the `axes` changes its sign with probability `p`."""

    def __init__(self, axes: str = "xy", p: Share = 0.5) -> None:
        if not set(axes) <= set("xyz"):
            raise ValueError(f"axes are some of x, y and z, got '{axes}'")
        self.axes, self.p = axes, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        flipped = rng.random(3) < self.p
        return turned(sample, np.diag([-1.0 if name in self.axes and f else 1.0 for name, f in zip("xyz", flipped)]))


@TRANSFORMS.register_module()
class JitterPoints:
    """Each coordinate moved on its own: normally distributed, cut off at `most`."""

    def __init__(self, std: NonNegative = 0.005, most: NonNegative = 0.02) -> None:
        self.std, self.most = std, most

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        noise = rng.normal(0, self.std, sample["points"].shape).clip(-self.most, self.most)
        return sample | dict(points=sample["points"] + noise.astype(np.float32))


@TRANSFORMS.register_module()
class DropPoints:
    """Leaves out a `share` of the points, at random, with probability `p`."""

    def __init__(self, share: Rate = 0.2, p: Share = 0.2) -> None:
        self.share, self.p = share, p

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.p:
            return sample
        n = len(sample["points"])
        return chosen(sample, rng.permutation(n)[: max(1, int(n * (1 - self.share)))])


@TRANSFORMS.register_module()
class ShufflePoints:
    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return chosen(sample, rng.permutation(len(sample["points"])))


@TRANSFORMS.register_module()
class GridSample:
    """Voxel grid sampling: one point, at random, of each cell of a grid with cells of `size`.

    With `whole`, the sample remembers which of them stands for each point (`inverse`) and the labels of all
    (`whole_labels`), so that predictions can be of all points.
    """

    def __init__(self, size: Positive = 0.01, whole: bool = False) -> None:
        if size <= 0:
            raise ValueError(f"the cells of GridSample have a size above 0, got {size}")
        self.size, self.whole = size, whole

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        cell = cells(sample["points"], self.size, sample.get("path", "the cloud"))
        order = rng.permutation(len(cell))
        _, first, inverse = np.unique(cell[order], return_index=True, return_inverse=True)
        kept = chosen(sample, order[first])
        if not self.whole:
            return kept
        back = np.empty_like(inverse)
        back[order] = inverse
        whole = dict(whole_labels=sample["labels"]) if "labels" in sample else {}
        return kept | dict(inverse=back, **whole)


def cells(points: np.ndarray, size: float, name: str) -> np.ndarray:
    """(N,) one number for the cell of each point. In float64, as backbones find voxels: both find the same."""
    grid = np.floor(points.astype(np.float64) / size)
    grid -= grid.min(0)
    shape = grid.max(0) + 1
    if not shape.prod() < 2**62:  # NaN is not either
        raise DataError(
            f"{name} spans {' x '.join(f'{n:.0f}' for n in shape)} cells of {size:g}, too many to number: take "
            "a larger size, or remove outliers"
        )
    return np.asarray(np.ravel_multi_index(tuple(grid.astype(np.int64).T), tuple(shape.astype(np.int64))))


def seen_colours(cloud: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """A cloud's own colours (n, 3) uint8, of 0..255 or shares of 1; None where it has none, or one for all."""
    if "colours" not in cloud or not np.ptp(cloud["colours"], 0).any():
        return None
    return in_bytes(cloud["colours"].clip(0, 255)).round().astype(np.uint8)


@TRANSFORMS.register_module()
class PackPoints(Pack):
    """The last one: a float32 tensor (n, 3 + features) for the model, and all that is not of points beside it.

    `features` are some of points, normals and colours; `missing`, dict(colours=0.5), what stands for those that a
    cloud does not have.
    """

    input_name = "points"

    def __init__(self, features: Sequence[str] = ("normals",), missing: dict[str, Finite] | None = None) -> None:
        self.features, self.missing = list(features), missing or {}

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """(size, 3 size, 3) uint8: the cloud of a sample, packed or not yet, from three sides."""
        cloud = self.unpacked(sample["inputs"]["points"].numpy()) if "inputs" in sample else sample
        places = np.concatenate([cloud[name] for name in DIRECTED if name in cloud], axis=1)
        up = "z" if "colours" in cloud else "y"  # what has colours is a scan, and scanners know where up is
        return np.asarray(draw(places, seen_colours(cloud), size=size, up=up))

    def unpacked(self, packed: np.ndarray) -> dict[str, np.ndarray]:
        """Points, and the features by their names, of (n, 3 + features)."""
        return dict(points=packed[:, :3]) | {n: packed[:, 3 * i : 3 * i + 3] for i, n in enumerate(self.features, 1)}

    def write_labelled(self, stem: Path, sample: Sample, labels: np.ndarray, classes: Sequence[str]) -> None:
        """STEM.png, STEM_prediction.ply, and STEM_truth.ply and STEM_error.ply where the truth is known."""
        if len(labels) != len(sample["points"]):
            raise DataError(
                f"{sample.get('path', 'a sample')} has {len(sample['points'])} points and predictions for "
                f"{len(labels)}: GridSample takes whole=True in the test set's transforms"
            )
        labelled.write(stem, sample, labels, classes)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        points, columns = sample["points"], []
        lost = np.abs(points).max() * 2**-24  # half the distance between neighbours in float32
        if points.dtype == np.float64 and lost > LOST * np.ptp(points, 0).max():
            raise DataError(
                f"{sample.get('path', 'the cloud')} is {np.abs(points).max():.4g} from the origin, where a model would "
                f"know its places to {lost:.2g} only: put CentrePoints or NormalizePoints before PackPoints"
            )
        for name in ("points", *self.features):
            if name not in sample and name not in self.missing:
                remedy = "; EstimateNormals before it makes some" if name == "normals" else ""
                raise DataError(
                    f"{sample.get('path', 'the cloud')} has no {name}, which PackPoints should pack: say with its "
                    f"missing=dict({name}=0.0) what to take instead, or leave them out of its features and the "
                    f"model's{remedy}"
                )
            columns.append(sample[name] if name in sample else np.full_like(points, self.missing[name]))
        packed = torch.from_numpy(np.concatenate(columns, axis=1).astype(np.float32))
        data_sample = {name: value for name, value in sample.items() if name == "labels" or name not in OF_POINTS}
        return dict(inputs=dict(points=packed), data_sample=data_sample)
