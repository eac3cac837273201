"""Adapters that turn a LiDAR's points and camera images into tokens of one space: pillars and patches."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.adapter import Adapter
from ndformer.framework.backbones.ptv3.layers import Norm
from ndformer.framework.data.dataset import Sample
from ndformer.framework.pictures.canvas import distinct_colors
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Few, Finite, Positive, Side, Width
from ndformer.framework.sparse import reduce_segments
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.driving.datasets.files import read_file, to_sample
from ndformer.modalities.driving.datasets.nuscenes.dataset import Version
from ndformer.modalities.driving.pictures.tokens import SensorScene
from ndformer.modalities.driving.projection import Ground, cells, first_view, lifted, matrices
from ndformer.modalities.driving.transforms.pack import PackDriving

EXTRA_INPUTS = ("camera_to_lidar", "intrinsics", "seen")
CHANNELS = 5  # x, y, z, intensity, lag
PLACES = 128  # calibrations whose token positions are cached
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's
Batch = Tensor | list[Tensor]


class SensorAdapter(Adapter):
    """Base class of adapters with positions (x, y, view, row, column, row offset, column offset).

    x and y are meters in the bird's-eye view, the others are patches in one camera. Each modality measures one of the
    two and computes the other from the calibration.
    """

    axes = ("x", "y", "view", "row", "column", "row offset", "column offset")
    extra_inputs = EXTRA_INPUTS
    patch: int  # pixels
    cell: float  # meters

    @property
    def position_dims(self) -> int:
        return 7

    def joint_canvas(self, sample: Sample, pack: PackDriving, places: Mapping[str, np.ndarray]) -> SensorScene:
        about, none = sample["data_sample"], np.zeros((0, 7))
        return SensorScene(
            pack.picture(sample, 0),
            np.asarray(about["windows"]),
            np.asarray(about["views"][-1]),
            places.get("points", none),
            places.get("images", none),
            self.cell,
            self.patch_grid(sample["inputs"]),
        )

    def patch_grid(self, inputs: dict[str, Any]) -> tuple[int, int]:
        """Return the rows and columns of patches of a camera."""
        height, width = inputs["images"].shape[-2:] if "images" in inputs else (0, 0)
        return height // self.patch, width // self.patch

    @staticmethod
    def cameras(
        patch: int,
        camera_to_lidar: Batch | None = None,
        intrinsics: Batch | None = None,
        seen: Batch | None = None,
    ) -> Tensor | None:
        """Return projection matrices (B, C, 3, 4), or None without a calibration."""
        if camera_to_lidar is None or intrinsics is None:
            return None
        if seen is None:
            seen = [torch.ones(len(poses), dtype=torch.bool, device=poses.device) for poses in camera_to_lidar]
        pose, lens, present = map(level, (camera_to_lidar, intrinsics, seen))
        with without_autocast(pose):
            return matrices(pose, lens, patch, present)


def level(batch: Batch) -> Tensor:
    """Stack samples with different numbers of cameras as (B, C, ...), padded with 0."""
    count = max(len(values) for values in batch)
    return torch.stack([F.pad(values, (0, 0) * (values.dim() - 1) + (0, count - len(values))) for values in batch])


@MODALITIES.register_module()
class Pillars(SensorAdapter):
    """Turn clouds (B, N, 5) of x, y, z, intensity and lag, or a list of (n, 5), into tokens of occupied pillars.

    Pillars of `cell` x `cell` meters lie between `low` and `high` (x, y, z); points outside and points that are not
    finite are left out. A point is described by its values and its offsets from the mean and the center of its pillar;
    two layers of a PointNet encode the points of a pillar (dynamic pillars: no points are dropped, Zhou 2019). In the
    cameras, which have `view` rows and columns of patches of `patch` pixels, a pillar is at the projection of its
    center into the first camera that sees it.
    """

    endings = (".bin", ".npy")  # of the files that open() reads

    number = 0

    def __init__(
        self,
        dim: Width,
        low: tuple[Finite, Finite, Finite] = (-54.0, -54.0, -5.0),
        high: tuple[Finite, Finite, Finite] = (54.0, 54.0, 3.0),
        cell: Positive = 0.3,
        patch: Side = 8,
        view: tuple[Side, Side] = (32, 88),
    ) -> None:
        super().__init__()
        self.low, self.high, self.cell, self.patch, self.view = low, high, cell, patch, view
        self.first = Points(CHANNELS + 6, dim // 2)
        self.second = Points(dim // 2 * 2, dim)

    def open(self, path: Path, columns: int = 4, sweeps: int = 10, version: Version | None = None) -> Sample:
        return read_file(path, columns, sweeps, version)

    def from_memory(self, value: Any, **options: Any) -> Sample:
        return to_sample(np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value))

    def canvas(self, sample: Sample, pack: PackDriving, places: np.ndarray) -> SensorScene:
        return self.joint_canvas(sample, pack, dict(points=places))

    @torch.no_grad()
    def pictures(self, sample: Sample, pack: PackDriving) -> list[np.ndarray]:
        """Draw the tokens with the patches of the cameras, each in its own color."""
        inputs = sample["inputs"]
        pillars = self([inputs["points"]]).where.positions[0].double().numpy()
        rows, columns = self.patch_grid(inputs)
        cameras = inputs["seen"].nonzero()[:, 0]
        patches = np.zeros((len(cameras) * rows * columns, 7))
        patches[:, 2:5] = torch.cartesian_prod(cameras, torch.arange(rows), torch.arange(columns)).numpy()
        patches[:, 3:5] += 0.5
        canvas = self.joint_canvas(sample, pack, dict(points=pillars, images=patches))
        return [canvas.painted(distinct_colors(len(canvas.coordinates)), 0)]

    def forward(
        self,
        clouds: Batch,
        **calibration: Batch | None,
    ) -> TokenSet:
        for cloud in clouds:
            if cloud.dim() != 2 or cloud.shape[1] != CHANNELS:
                raise ValueError(
                    f"clouds must be (points, {CHANNELS}) of x, y, z, intensity and lag, got {tuple(cloud.shape)}"
                )
        B = len(clouds)
        counts = tensor_like([len(cloud) for cloud in clouds], clouds[0])
        points = torch.cat(list(clouds)).float()
        sample = torch.repeat_interleave(counts)
        nx, ny = cells(self.low[:2], self.high[:2], self.cell)
        place = ((points[:, :2].double() - tensor_like(self.low[:2], points).double()) / self.cell).floor()
        inside = (place >= 0).all(1) & (place < tensor_like([nx, ny], place)).all(1) & points.isfinite().all(1)
        inside = inside & (points[:, 2] >= self.low[2]) & (points[:, 2] < self.high[2])
        points, sample, place = points[inside], sample[inside], place[inside].long()
        number = (sample * nx + place[:, 0]) * ny + place[:, 1]
        number, order = number.sort(stable=True)
        number, lengths = torch.unique_consecutive(number, return_counts=True)
        pillar = torch.repeat_interleave(lengths)  # (points,) the pillar of each point
        sample = number.div(nx * ny, rounding_mode="floor")
        corner = torch.stack([number.div(ny, rounding_mode="floor") % nx, number % ny], 1)
        middle = ((corner.double() + 0.5) * self.cell + tensor_like(self.low[:2], place).double()).float()
        middle = F.pad(middle, (0, 1), value=(self.low[2] + self.high[2]) / 2)  # (P, 3)
        x = self._features(points[order], middle, pillar, lengths)
        positions = torch.zeros(len(x), 7, device=x.device)
        positions[:, :2] = middle[:, :2]
        each = torch.bincount(sample, minlength=B)
        cameras = self.cameras(self.patch, **calibration)
        if cameras is not None:
            parts = middle.split(each.tolist())
            positions[:, 2:5] = torch.cat([first_view(m, p, self.view) for m, p in zip(cameras, parts)])
        return _padded(x, positions, sample, each)

    def _features(self, points: Tensor, middle: Tensor, pillar: Tensor, lengths: Tensor) -> Tensor:
        """Encode points (n, 5), sorted by pillar, as pillars (P, dim)."""
        if len(points) == 0:
            return points.new_zeros(0, self.second.out)
        place = points[:, :3]
        mean = reduce_segments(place.double(), lengths, "mean").float()
        x = torch.cat([points, place - mean[pillar], place - middle[pillar]], 1)  # (n, 11)
        x = self.first(x)
        x = torch.cat([x, reduce_segments(x, lengths, "max")[pillar]], 1)
        return reduce_segments(self.second(x), lengths, "max")


class Points(nn.Module):
    """A layer of a PointNet, applied to each point."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.out = out
        self.linear, self.norm = nn.Linear(channels, out, bias=False), Norm(out)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x)).relu()


def _padded(x: Tensor, positions: Tensor, sample: Tensor, each: Tensor) -> TokenSet:
    """Pad pillars (P, dim) of samples with `each` pillars to a TokenSet of modality 0."""
    B, N = len(each), int(each.max())
    slot = torch.arange(len(x), device=x.device) - (each.cumsum(0) - each)[sample]
    features = x.new_zeros(B, N, x.shape[1]).index_put((sample, slot), x)
    places = positions.new_zeros(B, N, 7).index_put((sample, slot), positions)
    valid = torch.arange(N, device=x.device) < each[:, None]
    return TokenSet(features, Where(places, valid=valid), torch.zeros_like(valid, dtype=torch.int64))


@MODALITIES.register_module()
class CameraPatches(SensorAdapter):
    """Turn images (B, C, 3, height, width) uint8 of C cameras, or a list of them, into a token for each patch.

    Only cameras that are `seen` have tokens. In the bird's-eye view, with cells of `cell` meters from `low` to `high`
    (x, y), a patch is at the point whose projection is nearest to the center of the patch, of points at the center of
    each cell in `layers` between `heights`; the remaining offset is part of its position. Positions are cached by
    calibration.
    """

    number = 1

    def __init__(
        self,
        dim: Width,
        patch: Side = 8,
        low: tuple[Finite, Finite] = (-54.0, -54.0),
        high: tuple[Finite, Finite] = (54.0, 54.0),
        cell: Positive = 0.3,
        heights: tuple[Finite, Finite] = (-10.0, 10.0),
        layers: Few = 20,
    ) -> None:
        super().__init__()
        self.patch, self.cell, self.ground = patch, cell, Ground(low, high, cell, heights, layers)
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.norm = nn.LayerNorm(dim)
        self.cached_positions: OrderedDict[tuple[bytes, tuple[int, int]], Tensor] = OrderedDict()

    def canvas(self, sample: Sample, pack: PackDriving, places: np.ndarray) -> SensorScene:
        return self.joint_canvas(sample, pack, dict(images=places))

    @property
    def patch_sides(self) -> tuple[int, int]:
        return self.patch, self.patch

    def forward(
        self,
        pictures: Batch,
        **calibration: Batch | None,
    ) -> TokenSet:
        sizes = {f"{image.shape[-1]} x {image.shape[-2]}" for image in pictures}
        if len(sizes) > 1:
            raise ValueError(
                f"images of a batch must have one size, got {', '.join(sorted(sizes))}: resize or crop them"
            )
        images = level(pictures)
        if images.dim() != 5 or images.shape[2] != 3 or images.shape[3] % self.patch or images.shape[4] % self.patch:
            raise ValueError(
                f"images must be (cameras, 3, height, width) in patches of {self.patch} pixels, got "
                f"{tuple(images.shape[1:])}: resize or crop them"
            )
        cameras = self.cameras(self.patch, **calibration)
        if cameras is None:
            raise ValueError("images need their cameras: give camera_to_lidar (C, 4, 4) and intrinsics (C, 3, 3)")
        B, C, _, H, W = images.shape
        weight = self.embed.weight
        mean, std = (tensor_like(numbers, weight)[:, None, None] for numbers in (MEAN, STD))
        x = self.embed((images.flatten(0, 1).to(weight.dtype) / 255 - mean) / std)  # (B C, dim, rows, columns)
        x = self.norm(x.flatten(2).mT).unflatten(0, (B, C)).flatten(1, 2)  # (B, C rows columns, dim)
        view = (H // self.patch, W // self.patch)
        keys = cameras.cpu()  # one device synchronization for all samples
        positions = torch.stack(
            [self._places(matrix, key.numpy().tobytes(), view) for matrix, key in zip(cameras, keys)]
        )
        valid = cameras.flatten(2).any(-1).repeat_interleave(view[0] * view[1], 1)  # (B, N)
        full = calibration.get("seen") is None and len({len(sample_images) for sample_images in pictures}) == 1
        where = Where(positions, valid=None if full else valid)
        return TokenSet(x, replace(where, cameras=lifted(cameras, view)), torch.ones_like(valid, dtype=torch.int64))

    @torch.no_grad()
    def _places(self, matrix: Tensor, key: bytes, view: tuple[int, int]) -> Tensor:
        """Return the positions (C rows columns, 7) of the patches of cameras (C, 3, 4), cached by `key`."""
        places = self.cached_positions.pop((key, view), None)
        if places is None:
            places = torch.cat([self._camera(c, camera, view) for c, camera in enumerate(matrix)])
        self.cached_positions[key, view] = places
        if len(self.cached_positions) > PLACES:
            self.cached_positions.popitem(last=False)
        return places.to(matrix.device)

    def _camera(self, number: int, matrix: Tensor, view: tuple[int, int]) -> Tensor:
        cell, off = self.ground.nearest_cells(matrix, view)
        x, y, _ = self.ground.axes(matrix)
        places = torch.zeros(len(off), 7, device=matrix.device)
        places[:, 0], places[:, 1], places[:, 2] = x[cell[:, 0]], y[cell[:, 1]], number
        middles = torch.cartesian_prod(*(torch.arange(side, device=matrix.device) for side in view)).to(matrix) + 0.5
        places[:, 3:5], places[:, 5:] = middles, off
        return places
