"""Points as they are: each a token with its own features, for backbones that order and voxelise them themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.registry import MODALITIES
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_cloud
from ndformer.modalities.pointcloud.pictures.clouds import draw
from ndformer.modalities.pointcloud.pictures.tokens import SIZE


@MODALITIES.register_module()
class Points(Adapter):
    """Clouds (B, N, 3 + dim), or a list of (n, 3 + dim), -> a token per point at (x, y, z), counted in `unit`, a length
    of the data. The backbone's voxels are counted in it too.

    The features are those that PackPoints packed behind the positions, unchanged: `dim` is the backbone's in_channels.
    """

    endings = ENDINGS  # files that open() reads

    def __init__(self, dim: int, unit: float = 1.0) -> None:
        super().__init__()
        if unit <= 0:
            raise ValueError(f"the unit of Points is a length above 0, got {unit}")
        self.dim, self.unit = dim, unit

    def open(self, path: Path) -> Sample:
        """What a dataset reads of one cloud, from a file of it."""
        return dict(read_cloud(path))

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        """A picture of the tokens of a packed sample: the points themselves."""
        return [np.asarray(draw(sample["inputs"]["points"][:, :3].numpy(), size=SIZE))]

    def forward(self, clouds: Tensor | list[Tensor]) -> TokenSet:
        for cloud in clouds:
            if cloud.dim() != 2 or cloud.shape[1] != 3 + self.dim:
                raise ValueError(
                    f"clouds must be (points, 3 + {self.dim} features), got {tuple(cloud.shape)}: "
                    "the `features` of PackPoints and the backbone's in_channels must agree"
                )
        counts = [len(cloud) for cloud in clouds]
        x = clouds if isinstance(clouds, Tensor) else pad_sequence(clouds, batch_first=True)
        x = x.float()  # (B, N, 3 + dim)
        valid = None
        if min(counts) < x.shape[1]:
            valid = torch.arange(x.shape[1], device=x.device) < torch.tensor(counts, device=x.device)[:, None]
        return TokenSet(x[..., 3:], Where(x[..., :3] / self.unit, valid=valid))
