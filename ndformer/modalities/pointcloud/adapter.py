"""Point clouds to tokens: one per centre, made from the points around it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODALITIES
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_cloud
from ndformer.modalities.pointcloud.pictures.tokens import groups
from ndformer.modalities.pointcloud.sampling import farthest, nearest, take


@MODALITIES.register_module()
class PointPatches(Adapter):
    """Clouds (B, N, 3 + features), or a list of (n, 3 + features), -> tokens at `centres` farthest points (x, y, z).

    A token is made from the `neighbours` points nearest to its centre (with `radius`, only those within it): from
    where they are as seen from the centre and from their features. Where the centre is, only its position tells.

    Positions, and the points as seen from a centre, are counted in `unit`, a length of the data. Near the distance
    between neighbouring centres it makes clouds what images in patches are, and the encodings' defaults fit both.
    """

    endings = ENDINGS  # files that open() reads

    def __init__(
        self,
        dim: int,
        centres: int = 512,
        neighbours: int = 32,
        features: int = 3,
        unit: float = 1.0,
        radius: float | None = None,
        class_token: bool = False,
    ) -> None:
        super().__init__()
        self.centres, self.neighbours, self.features, self.unit, self.radius = (
            centres,
            neighbours,
            features,
            unit,
            radius,
        )
        self.embed = PointNet(3 + features, dim)
        self.add_tokens(dim, class_token)

    def open(self, path: Path) -> Sample:
        """What a dataset reads of one cloud, from a file of it."""
        return dict(read_cloud(path))

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        """A picture of the tokens of a packed sample."""
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
        x, counts = self._padded(clouds)  # (B, N, 3 + features)
        valid = None
        if min(counts) < x.shape[1]:
            valid = torch.arange(x.shape[1], device=x.device) < torch.tensor(counts, device=x.device)[:, None]
        positions, index, inside = self.groups(x[..., :3], valid)  # (B, M, 3), (B, M, K), (B, M, K)
        group = take(x, index)  # (B, M, K, 3 + features)
        group = torch.cat([(group[..., :3] - positions[:, :, None]) / self.unit, group[..., 3:]], dim=-1)
        real = None  # where a cloud has fewer points than there are centres
        if min(counts) < self.centres:
            real = torch.arange(self.centres, device=x.device) < torch.tensor(counts, device=x.device)[:, None]
        return self.with_tokens(self.embed(group, inside), positions / self.unit, real)

    def _padded(self, clouds: Tensor | list[Tensor]) -> tuple[Tensor, list[int]]:
        """One tensor and the number of points of each cloud."""
        for cloud in clouds:
            if cloud.dim() != 2 or cloud.shape[1] != 3 + self.features:
                raise ValueError(
                    f"clouds must be (points, 3 + {self.features} features), got {tuple(cloud.shape)}: "
                    "PackPoints and the modality's `features` must agree"
                )
        counts = [len(cloud) for cloud in clouds]
        if 0 in counts:
            raise DataError(f"sample {counts.index(0)} of a batch has no points: remove it, or what removed them")
        x = clouds if isinstance(clouds, Tensor) else pad_sequence(clouds, batch_first=True)
        return x.float(), counts


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
