"""Adapters that turn point clouds into tokens: one for each group of points, or one for each point."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

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
from ndformer.framework.registry.renamed import Renamed
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_cloud, to_cloud
from ndformer.modalities.pointcloud.formats.scene import is_scene
from ndformer.modalities.pointcloud.pictures.clouds import TOKENS_SIZE, draw_groups
from ndformer.modalities.pointcloud.pictures.overlay import TurningCloud
from ndformer.modalities.pointcloud.sampling import farthest, nearest, take
from ndformer.modalities.pointcloud.transforms.points import PackPoints, display_colors


class Clouds(Adapter):
    """Base class of point cloud adapters; the clouds of a batch may differ in size."""

    endings = ENDINGS  # of the files that open() reads
    axes = ("x", "y", "z")
    more_tokens = "Set a smaller grid_size of GridSample in the transforms of each loader, or take denser clouds."
    unit: float  # length, in the data's unit, that positions are counted in

    @property
    def position_dims(self) -> int:
        return 3

    def is_sample(self, folder: Path) -> bool:
        return is_scene(folder)

    def open(self, path: Path, columns: str | None = None) -> Sample:
        return dict(read_cloud(path, columns=columns))

    def from_memory(self, value: Any, columns: str | None = None) -> Sample:
        return dict(to_cloud(value, columns))

    def canvas(self, sample: Sample, pack: PackPoints, places: np.ndarray) -> Canvas:
        cloud = pack.unpacked(sample["inputs"]["points"].numpy())
        return TurningCloud(cloud["points"], display_colors(cloud), places * self.unit)

    def padded(self, clouds: Tensor | list[Tensor], features: int, who: str) -> tuple[Tensor, list[int]]:
        """Return clouds as a padded tensor (B, N, 3 + features), and the number of points of each cloud."""
        for cloud in clouds:
            if cloud.dim() != 2 or cloud.shape[1] != 3 + features:
                raise ValueError(
                    f"clouds must have shape (points, 3 + {features}), got {tuple(cloud.shape)}. "
                    f"Set {who} to the same features"
                )
        x = clouds if isinstance(clouds, Tensor) else pad_sequence(clouds, batch_first=True)
        return x.float(), [len(cloud) for cloud in clouds]


def valid_rows(counts: list[int], rows: int, device: torch.device) -> Tensor | None:
    """Return a mask (B, rows) of the first `counts` of each row, or None where nothing is padding."""
    if min(counts) >= rows:
        return None
    return torch.arange(rows, device=device) < torch.tensor(counts).to(device, non_blocking=True)[:, None]


@MODALITIES.register_module()
class PointPatches(Clouds):
    """Turn clouds (B, N, 3 + features), or a list of (n, 3 + features), into tokens at `centers` farthest points.

    A token encodes the `neighbors` points nearest to its center (with `radius`, only those within it): their features
    and their positions relative to the center. The center itself enters only as the token's position.

    Positions and relative positions are divided by `unit`, a length of the data. With a `unit` near the distance
    between neighboring centers, tokens are spaced like image patches, which the defaults of the encodings expect.
    """

    renamed_options: ClassVar[Mapping[str, Renamed]] = dict(
        centres=Renamed("centers"), neighbours=Renamed("neighbors"), **Clouds.renamed_options
    )
    more_tokens = "Set more `centers` of the modality, or take denser clouds."

    def __init__(
        self,
        dim: Width,
        centers: Width = 512,
        neighbors: Width = 32,
        features: WidthOrNone = 3,
        unit: Positive = 1.0,
        radius: Positive | None = None,
        class_token: bool = False,
    ) -> None:
        super().__init__()
        self.centers, self.neighbors, self.radius = centers, neighbors, radius
        self.features, self.unit = features, unit
        self.embed = PointNet(3 + features, dim)
        self.add_tokens(dim, class_token)

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        cloud = sample["inputs"]["points"]
        index, inside = self.groups(cloud[None, :, :3].float())[1:]
        return [draw_groups(cloud.numpy(), index[0].numpy(), inside[0].numpy())]

    def groups(self, points: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Group points (B, N, 3): centers (B, M, 3), neighbor indices (B, M, K) and a mask of valid neighbors."""
        positions = take(points, farthest(points, self.centers, valid))
        index, distance = nearest(points, positions, self.neighbors, valid)
        inside = distance <= (math.inf if self.radius is None else self.radius**2)
        return positions, index, inside if valid is None else inside & (distance < math.inf)

    def forward(self, clouds: Tensor | list[Tensor]) -> TokenSet:
        x, counts = self.padded(clouds, self.features, "PackPoints and the modality's `features`")
        if 0 in counts:
            raise DataError(
                f"sample {counts.index(0)} of a batch has no points: remove it, or the transform that removed them"
            )
        valid = valid_rows(counts, x.shape[1], x.device)
        positions, index, inside = self.groups(x[..., :3], valid)  # (B, M, 3), (B, M, K), (B, M, K)
        group = take(x, index)  # (B, M, K, 3 + features)
        group = torch.cat([(group[..., :3] - positions[:, :, None]) / self.unit, group[..., 3:]], dim=-1)
        token_mask = valid_rows(counts, self.centers, x.device)  # a cloud may have fewer points than there are centers
        return self.with_tokens(self.embed(group, inside), positions / self.unit, token_mask)


class PointNet(nn.Module):
    """Encode a set of points as one vector (PointNet, Qi 2017, in the form of Point-BERT).

    Each point is embedded, joined with the maximum over all points, embedded again and max-pooled. LayerNorm instead of
    BatchNorm makes the tokens of a cloud independent of its batch.
    """

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        width = dim // 2
        self.alone = nn.Sequential(nn.Linear(channels, width), nn.GELU(), nn.Linear(width, width))
        self.own = nn.Linear(width, dim)  # own and common: one linear layer on the concatenation of both
        self.common = nn.Linear(width, dim, bias=False)
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, group: Tensor, inside: Tensor) -> Tensor:
        """Encode groups (B, M, K, channels) with a mask (B, M, K) of valid points as (B, M, dim)."""
        outside = ~inside[..., None]
        x = self.alone(group)  # (B, M, K, width)
        common = x.masked_fill(outside, -math.inf).amax(2)  # (B, M, width)
        x = self.out(self.own(x) + self.common(common)[:, :, None])
        return x.masked_fill(outside, -math.inf).amax(2)


@MODALITIES.register_module()
class Points(Clouds):
    """Turn clouds (B, N, 3 + dim), or a list of (n, 3 + dim), into one token for each point, at (x, y, z) / `unit`.

    This is for backbones that order and voxelize points themselves; their voxels are counted in `unit` too. The
    features are those that PackPoints packed after the positions, unchanged: `dim` is the backbone's in_channels.
    """

    def __init__(self, dim: Width, unit: Positive = 1.0) -> None:
        super().__init__()
        if unit <= 0:
            raise ValueError(f"the unit of Points must be a length above 0, got {unit}")
        self.dim, self.unit = dim, unit

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        return [pack.picture(sample, TOKENS_SIZE)]

    def forward(self, clouds: Tensor | list[Tensor]) -> TokenSet:
        x, counts = self.padded(clouds, self.dim, "the `features` of PackPoints and the backbone's in_channels")
        return TokenSet(x[..., 3:], Where(x[..., :3] / self.unit, valid=valid_rows(counts, x.shape[1], x.device)))
