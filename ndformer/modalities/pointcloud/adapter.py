"""Point clouds to tokens: one per centre, made from the points around it, or each point as it is."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.canvas import Canvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Positive, Width, WidthOrNone
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_cloud
from ndformer.modalities.pointcloud.formats.held import held_cloud
from ndformer.modalities.pointcloud.formats.scene import is_scene
from ndformer.modalities.pointcloud.pictures.scene import TurningCloud
from ndformer.modalities.pointcloud.pictures.tokens import SIZE, groups
from ndformer.modalities.pointcloud.sampling import farthest, nearest, take
from ndformer.modalities.pointcloud.transforms.points import PackPoints, seen_colours


class Clouds(Adapter):
    """Of clouds of points, each with as many as it has."""

    endings = ENDINGS  # files that open() reads
    axes = ("x", "y", "z")
    more_tokens = "Set a smaller grid_size of GridSample in the transforms of each loader, or take denser clouds."
    unit: float  # that positions are counted in, a length of the data

    @property
    def position_dims(self) -> int:
        return 3

    def is_sample(self, folder: Path) -> bool:
        return is_scene(folder)

    def open(self, path: Path, columns: str | None = None) -> Sample:
        return dict(read_cloud(path, columns=columns))

    def from_memory(self, value: Any, columns: str | None = None) -> Sample:
        return dict(held_cloud(value, columns))

    def canvas(self, sample: Sample, pack: PackPoints, places: np.ndarray) -> Canvas:
        cloud = pack.unpacked(sample["inputs"]["points"].numpy())
        return TurningCloud(cloud["points"], seen_colours(cloud), places * self.unit)

    def padded(self, clouds: Tensor | list[Tensor], features: int, who: str) -> tuple[Tensor, list[int]]:
        """One tensor (B, N, 3 + features), and the number of points of each cloud."""
        for cloud in clouds:
            if cloud.dim() != 2 or cloud.shape[1] != 3 + features:
                raise ValueError(
                    f"clouds must be (points, 3 + {features} features), got {tuple(cloud.shape)}: {who} must agree"
                )
        x = clouds if isinstance(clouds, Tensor) else pad_sequence(clouds, batch_first=True)
        return x.float(), [len(cloud) for cloud in clouds]


def real(counts: list[int], rows: int, device: torch.device) -> Tensor | None:
    """(B, rows) the first `counts` of each row; None where these are all."""
    if min(counts) >= rows:
        return None
    return torch.arange(rows, device=device) < torch.tensor(counts).to(device, non_blocking=True)[:, None]


@MODALITIES.register_module()
class PointPatches(Clouds):
    """Clouds (B, N, 3 + features), or a list of (n, 3 + features), -> tokens at `centres` farthest points (x, y, z).

    A token is made from the `neighbours` points nearest to its centre (with `radius`, only those within it): from
    where they are as seen from the centre and from their features. Where the centre is, only its position tells.

    Positions, and the points as seen from a centre, are counted in `unit`, a length of the data. Near the distance
    between neighbouring centres it makes clouds what images in patches are, and the encodings' defaults fit both.
    """

    more_tokens = "Set more `centres` of the modality, or take denser clouds."

    def __init__(
        self,
        dim: Width,
        centres: Width = 512,
        neighbours: Width = 32,
        features: WidthOrNone = 3,
        unit: Positive = 1.0,
        radius: Positive | None = None,
        class_token: bool = False,
    ) -> None:
        super().__init__()
        self.centres, self.neighbours, self.radius = centres, neighbours, radius
        self.features, self.unit = features, unit
        self.embed = PointNet(3 + features, dim)
        self.add_tokens(dim, class_token)

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        cloud = sample["inputs"]["points"]
        index, inside = self.groups(cloud[None, :, :3].float())[1:]
        return [groups(cloud.numpy(), index[0].numpy(), inside[0].numpy())]

    def groups(self, points: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Of points (B, N, 3): centres (B, M, 3), the numbers of their neighbours (B, M, K) and which of them count."""
        positions = take(points, farthest(points, self.centres, valid))
        index, distance = nearest(points, positions, self.neighbours, valid)
        inside = distance <= (math.inf if self.radius is None else self.radius**2)
        return positions, index, inside if valid is None else inside & (distance < math.inf)

    def forward(self, clouds: Tensor | list[Tensor]) -> TokenSet:
        x, counts = self.padded(clouds, self.features, "PackPoints and the modality's `features`")
        if 0 in counts:
            raise DataError(f"sample {counts.index(0)} of a batch has no points: remove it, or what removed them")
        valid = real(counts, x.shape[1], x.device)
        positions, index, inside = self.groups(x[..., :3], valid)  # (B, M, 3), (B, M, K), (B, M, K)
        group = take(x, index)  # (B, M, K, 3 + features)
        group = torch.cat([(group[..., :3] - positions[:, :, None]) / self.unit, group[..., 3:]], dim=-1)
        own = real(counts, self.centres, x.device)  # a cloud may have fewer points than there are centres
        return self.with_tokens(self.embed(group, inside), positions / self.unit, own)


class PointNet(nn.Module):
    """A set of points as one vector: each alone, then each with what all of them have, the largest of every channel.

    (Qi 2017; in Point-BERT's form.) LayerNorm instead of BatchNorm: a cloud's tokens depend on it alone.
    """

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        width = dim // 2
        self.alone = nn.Sequential(nn.Linear(channels, width), nn.GELU(), nn.Linear(width, width))
        self.own = nn.Linear(width, dim)  # own and common: one layer on both side by side
        self.common = nn.Linear(width, dim, bias=False)
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, group: Tensor, inside: Tensor) -> Tensor:
        """(B, M, K, channels) of which (B, M, K) count -> (B, M, dim)."""
        outside = ~inside[..., None]
        x = self.alone(group)  # (B, M, K, width)
        common = x.masked_fill(outside, -math.inf).amax(2)  # (B, M, width)
        x = self.out(self.own(x) + self.common(common)[:, :, None])
        return x.masked_fill(outside, -math.inf).amax(2)


@MODALITIES.register_module()
class Points(Clouds):
    """Clouds (B, N, 3 + dim), or a list of (n, 3 + dim), -> a token per point at (x, y, z), counted in `unit`, a length
    of the data. For backbones that order and voxelise points themselves; their voxels are counted in it too.

    The features are those that PackPoints packed behind the positions, unchanged: `dim` is the backbone's in_channels.
    """

    def __init__(self, dim: Width, unit: Positive = 1.0) -> None:
        super().__init__()
        if unit <= 0:
            raise ValueError(f"the unit of Points is a length above 0, got {unit}")
        self.dim, self.unit = dim, unit

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        return [pack.picture(sample, SIZE)]

    def forward(self, clouds: Tensor | list[Tensor]) -> TokenSet:
        x, counts = self.padded(clouds, self.dim, "the `features` of PackPoints and the backbone's in_channels")
        return TokenSet(x[..., 3:], Where(x[..., :3] / self.unit, valid=real(counts, x.shape[1], x.device)))
