"""A LiDAR's points and the pictures of cameras to tokens of one space: pillars and patches."""

from collections import OrderedDict
from collections.abc import Mapping
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
from ndformer.modalities.driving.datasets.files import held, read_file
from ndformer.modalities.driving.datasets.nuscenes.dataset import Version
from ndformer.modalities.driving.pictures.tokens import SensorScene
from ndformer.modalities.driving.projection import Ground, cells, first_view, matrices
from ndformer.modalities.driving.transforms.pack import PackDriving

TOLD = ("camera_to_lidar", "intrinsics", "seen")
CHANNELS = 5  # x, y, z, intensity, lag
PLACES = 128  # calibrations whose places are kept
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's
Batch = Tensor | list[Tensor]


class Scene(Adapter):
    """Tokens stand at (x, y, view, row, column, row off, column off): metres in the bird's-eye view and patches in one
    camera. Each modality knows one of the two, and finds the other by the calibration."""

    axes = ("x", "y", "view", "row", "column", "row offset", "column offset")
    extra_inputs = TOLD
    patch: int  # pixels
    cell: float  # metres

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
            self.patches_of(sample["inputs"]),
        )

    def patches_of(self, inputs: dict[str, Any]) -> tuple[int, int]:
        """Rows and columns of a camera."""
        height, width = inputs["images"].shape[-2:] if "images" in inputs else (0, 0)
        return height // self.patch, width // self.patch

    @staticmethod
    def cameras(
        patch: int, camera_to_lidar: Batch | None, intrinsics: Batch | None, seen: Batch | None
    ) -> Tensor | None:
        """(B, C, 3, 4), None where there are none."""
        if camera_to_lidar is None or intrinsics is None:
            return None
        if seen is None:
            seen = [torch.ones(len(one), dtype=torch.bool, device=one.device) for one in camera_to_lidar]
        pose, lens, there = map(level, (camera_to_lidar, intrinsics, seen))
        with without_autocast(pose):
            return matrices(pose, lens, patch, there)


def level(batch: Batch) -> Tensor:
    """(B, C, ...) of samples with as many cameras as they have each: 0 where a sample has no more."""
    most = max(len(one) for one in batch)
    return torch.stack([F.pad(one, (0, 0) * (one.dim() - 1) + (0, most - len(one))) for one in batch])


@MODALITIES.register_module()
class Pillars(Scene):
    """Clouds (B, N, 5) of x, y, z, intensity and lag, or a list of (n, 5), -> a token for each pillar that has a point.

    Pillars of `cell` x `cell` metres stand between `low` and `high` (x, y, z); points beside them, and such as are not
    finite, are left out. A point is what it is, how far it is from the mean of its pillar and from its middle; two
    layers of a PointNet make a pillar of its points (dynamic pillars: none is dropped, Zhou 2019). In the cameras,
    which have `view` rows and columns of `patch` pixels, a pillar stands where its middle is first seen.
    """

    endings = (".bin", ".npy")  # files that open() reads

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
        return held(np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value))

    def canvas(self, sample: Sample, pack: PackDriving, places: np.ndarray) -> SensorScene:
        return self.joint_canvas(sample, pack, dict(points=places))

    @torch.no_grad()
    def pictures(self, sample: Sample, pack: PackDriving) -> list[np.ndarray]:
        """With the patches of its cameras, each token in a colour of its own."""
        inputs = sample["inputs"]
        pillars = self([inputs["points"]]).where.positions[0].double().numpy()
        rows, columns = self.patches_of(inputs)
        cameras = inputs["seen"].nonzero()[:, 0]
        patches = np.zeros((len(cameras) * rows * columns, 7))
        patches[:, 2:5] = torch.cartesian_prod(cameras, torch.arange(rows), torch.arange(columns)).numpy()
        patches[:, 3:5] += 0.5
        scene = self.joint_canvas(sample, pack, dict(points=pillars, images=patches))
        return [scene.painted(distinct_colors(len(scene.coordinates)), 0)]

    def forward(
        self,
        clouds: Batch,
        camera_to_lidar: Batch | None = None,
        intrinsics: Batch | None = None,
        seen: Batch | None = None,
    ) -> TokenSet:
        for cloud in clouds:
            if cloud.dim() != 2 or cloud.shape[1] != CHANNELS:
                raise ValueError(
                    f"clouds are (points, {CHANNELS}) of x, y, z, intensity and lag, got {tuple(cloud.shape)}"
                )
        B = len(clouds)
        counts = tensor_like([len(cloud) for cloud in clouds], clouds[0])
        points = torch.cat(list(clouds)).float()
        sample = torch.repeat_interleave(counts)
        nx, ny = cells(self.low[:2], self.high[:2], self.cell)
        at = ((points[:, :2].double() - tensor_like(self.low[:2], points).double()) / self.cell).floor()
        inside = (at >= 0).all(1) & (at < tensor_like([nx, ny], at)).all(1) & points.isfinite().all(1)
        points, sample, at = points[inside], sample[inside], at[inside].long()
        number = (sample * nx + at[:, 0]) * ny + at[:, 1]
        number, order = number.sort(stable=True)
        number, lengths = torch.unique_consecutive(number, return_counts=True)
        own = torch.repeat_interleave(lengths)  # (points,) the pillar of each
        sample = number.div(nx * ny, rounding_mode="floor")
        corner = torch.stack([number.div(ny, rounding_mode="floor") % nx, number % ny], 1)
        middle = ((corner.double() + 0.5) * self.cell + tensor_like(self.low[:2], at).double()).float()
        middle = F.pad(middle, (0, 1), value=(self.low[2] + self.high[2]) / 2)  # (P, 3)
        x = self._features(points[order], middle, own, lengths)
        positions = torch.zeros(len(x), 7, device=x.device)
        positions[:, :2] = middle[:, :2]
        each = torch.bincount(sample, minlength=B)
        cameras = self.cameras(self.patch, camera_to_lidar, intrinsics, seen)
        if cameras is not None:
            parts = middle.split(each.tolist())
            positions[:, 2:5] = torch.cat([first_view(m, p, self.view) for m, p in zip(cameras, parts)])
        return _padded(x, positions, sample, each)

    def _features(self, points: Tensor, middle: Tensor, own: Tensor, lengths: Tensor) -> Tensor:
        """(n, 5) points, pillar by pillar -> (P, dim)."""
        if len(points) == 0:
            return points.new_zeros(0, self.second.out)
        place = points[:, :3]
        mean = reduce_segments(place.double(), lengths, "mean").float()
        x = torch.cat([points, place - mean[own], place - middle[own]], 1)  # (n, 11)
        x = self.first(x)
        x = torch.cat([x, reduce_segments(x, lengths, "max")[own]], 1)
        return reduce_segments(self.second(x), lengths, "max")


class Points(nn.Module):
    """A layer of a PointNet, on each point alone."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.out = out
        self.linear, self.norm = nn.Linear(channels, out, bias=False), Norm(out)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x)).relu()


def _padded(x: Tensor, positions: Tensor, sample: Tensor, each: Tensor) -> TokenSet:
    """Pillars (P, dim) of samples, `each` so many, as rows of modality 0."""
    B, N = len(each), int(each.max())
    slot = torch.arange(len(x), device=x.device) - (each.cumsum(0) - each)[sample]
    features = x.new_zeros(B, N, x.shape[1]).index_put((sample, slot), x)
    places = positions.new_zeros(B, N, 7).index_put((sample, slot), positions)
    valid = torch.arange(N, device=x.device) < each[:, None]
    return TokenSet(features, Where(places, valid=valid), torch.zeros_like(valid, dtype=torch.int64))


@MODALITIES.register_module()
class CameraPatches(Scene):
    """Pictures (B, C, 3, height, width) uint8 of C cameras, or a list of them, each of as many as there are -> a token
    for each patch of each camera that is `seen`.

    In the bird's-eye view, cells of `cell` metres from `low` to `high` (x, y), a patch stands where the point nearest
    to its middle does, of points in the middle of each cell in `layers` between `heights`; how far off that was is
    part of its position. What a calibration tells is kept for the next batch.
    """

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
        self.known: OrderedDict[tuple[bytes, tuple[int, int]], Tensor] = OrderedDict()

    def canvas(self, sample: Sample, pack: PackDriving, places: np.ndarray) -> SensorScene:
        return self.joint_canvas(sample, pack, dict(images=places))

    @property
    def patch_sides(self) -> tuple[int, int]:
        return self.patch, self.patch

    def forward(
        self,
        pictures: Batch,
        camera_to_lidar: Batch | None = None,
        intrinsics: Batch | None = None,
        seen: Batch | None = None,
    ) -> TokenSet:
        sizes = {f"{one.shape[-1]} x {one.shape[-2]}" for one in pictures}
        if len(sizes) > 1:
            raise ValueError(f"pictures of a batch have one size, got {', '.join(sorted(sizes))}: resize or crop them")
        images = level(pictures)
        if images.dim() != 5 or images.shape[2] != 3 or images.shape[3] % self.patch or images.shape[4] % self.patch:
            raise ValueError(
                f"pictures are (cameras, 3, height, width) in patches of {self.patch} pixels, got "
                f"{tuple(images.shape[1:])}: resize or crop them"
            )
        cameras = self.cameras(self.patch, camera_to_lidar, intrinsics, seen)
        if cameras is None:
            raise ValueError("pictures need their cameras: give camera_to_lidar (C, 4, 4) and intrinsics (C, 3, 3)")
        B, C, _, H, W = images.shape
        weight = self.embed.weight
        mean, std = (tensor_like(numbers, weight)[:, None, None] for numbers in (MEAN, STD))
        x = self.embed((images.flatten(0, 1).to(weight.dtype) / 255 - mean) / std)  # (B C, dim, rows, columns)
        x = self.norm(x.flatten(2).mT).unflatten(0, (B, C)).flatten(1, 2)  # (B, C rows columns, dim)
        view = (H // self.patch, W // self.patch)
        keys = cameras.cpu()  # one wait for all samples
        positions = torch.stack([self._places(one, key.numpy().tobytes(), view) for one, key in zip(cameras, keys)])
        there = cameras.flatten(2).any(-1).repeat_interleave(view[0] * view[1], 1)  # (B, N)
        full = seen is None and len({len(one) for one in pictures}) == 1
        where = Where(positions, valid=None if full else there)
        return TokenSet(x, where, torch.ones_like(there, dtype=torch.int64))

    @torch.no_grad()
    def _places(self, matrix: Tensor, key: bytes, view: tuple[int, int]) -> Tensor:
        """(C rows columns, 7) of cameras (C, 3, 4)."""
        known = self.known.pop((key, view), None)
        if known is None:
            known = torch.cat([self._camera(c, one, view) for c, one in enumerate(matrix)])
        self.known[key, view] = known
        if len(self.known) > PLACES:
            self.known.popitem(last=False)
        return known.to(matrix.device)

    def _camera(self, number: int, matrix: Tensor, view: tuple[int, int]) -> Tensor:
        cell, off = self.ground.seen(matrix, view)
        x, y, _ = self.ground.axes(matrix)
        places = torch.zeros(len(off), 7, device=matrix.device)
        places[:, 0], places[:, 1], places[:, 2] = x[cell[:, 0]], y[cell[:, 1]], number
        middles = torch.cartesian_prod(*(torch.arange(side, device=matrix.device) for side in view)).to(matrix) + 0.5
        places[:, 3:5], places[:, 5:] = middles, off
        return places
