"""Adapter that turns LiDAR scans into patches of a range image, whose azimuths lie on a circle."""

import numpy as np
import torch
from torch import Tensor, nn

from ndformer.framework.data.dataset import Sample
from ndformer.framework.pictures.canvas import Canvas, GridCanvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Finite, Side, Width, WidthOrNone
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.pointcloud.adapter import Clouds
from ndformer.modalities.pointcloud.transforms.points import PackPoints


@MODALITIES.register_module()
class RangePatches(Clouds):
    """Turn scans (B, N, 3 + features), or a list of (n, 3 + features), into patches of a range image.

    The sensor is at the origin. The image has `rows` from the highest to the lowest of `inclinations` and `columns` of
    azimuths from the x axis towards y. A pixel has the nearest of its points: whether there is one, the logarithm of
    its distance, and its features; points outside of `inclinations` are left out. Tokens are `patch` rows and columns,
    at (inclination, azimuth) in degrees, and azimuths have a period of 360. `position_scale='auto'` of the encoding
    counts them in patches.
    """

    axes = ("inclination", "azimuth")
    periods = (None, 360.0)
    more_tokens = "Set a smaller `patch` of the modality, or more `rows` and `columns`."

    def __init__(
        self,
        dim: Width,
        features: WidthOrNone = 0,
        rows: Side = 32,
        columns: Side = 512,
        inclinations: tuple[Finite, Finite] = (-30.0, 10.0),
        patch: tuple[Side, Side] = (4, 16),
        class_token: bool = False,
    ) -> None:
        super().__init__()
        if rows % patch[0] or columns % patch[1]:
            raise ValueError(
                f"rows and columns must be divisible by the patch {tuple(patch)}, got {rows} and {columns}: set another"
            )
        if inclinations[0] >= inclinations[1]:
            raise ValueError(f"inclinations must be (lowest, highest) in degrees, got {tuple(inclinations)}: swap them")
        self.features, self.rows, self.columns, self.inclinations = features, rows, columns, inclinations
        self.patch = patch
        self.project = nn.Conv2d(2 + features, dim, patch, patch)
        self.add_tokens(dim, class_token)

    @property
    def position_dims(self) -> int:
        return 2

    def canvas(self, sample: Sample, pack: PackPoints, places: np.ndarray) -> Canvas:
        """Return the range image, bright where points are near and black where there are none."""
        any_point, distance = self.image(sample["inputs"]["points"])[:2].numpy()
        low, high = (distance[any_point > 0].min(), distance[any_point > 0].max()) if any_point.any() else (0, 1)
        gray = np.where(any_point > 0, 255 - 195 * (distance - low) / max(high - low, 1e-6), 0).astype(np.uint8)
        higher = max(1, self.columns // (4 * self.rows))  # so that rows of a wide image can be told apart
        picture = np.repeat(np.repeat(gray, higher, 0)[..., None], 3, 2)
        return GridCanvas(picture[None], (self.rows // self.patch[0], self.columns // self.patch[1]))

    def image(self, cloud: Tensor) -> Tensor:
        """Return the range image (2 + features, rows, columns) of a scan (n, 3 + features)."""
        cloud = cloud[cloud.isfinite().all(1)]
        x, y, z = cloud[:, :3].double().unbind(1)
        distance = torch.stack([x, y, z]).norm(dim=0)
        low, high = self.inclinations
        row = (high - torch.rad2deg(torch.atan2(z, x.hypot(y)))) / (high - low) * self.rows
        column = (torch.rad2deg(torch.atan2(y, x)) % 360 / 360 * self.columns).floor() % self.columns
        inside = (row >= 0) & (row < self.rows) & (distance > 0)
        order = distance[inside].argsort(stable=True)
        pixel = (row.floor() * self.columns + column)[inside][order].long()
        values = torch.cat([torch.ones_like(cloud[:, :1]), distance.log()[:, None].to(cloud.dtype), cloud[:, 3:]], 1)
        values = values[inside][order]
        rank = torch.arange(len(pixel), device=cloud.device)
        nearest = rank.new_full((self.rows * self.columns,), len(pixel)).scatter_reduce(0, pixel, rank, "amin")
        empty = values.new_zeros(1, values.shape[1])
        return torch.cat([values, empty])[nearest].T.unflatten(1, (self.rows, self.columns))

    def forward(self, clouds: Tensor | list[Tensor]) -> TokenSet:
        x, counts = self.padded(clouds, self.features, "PackPoints and the modality's `features`")
        images = torch.stack([self.image(cloud[:n]) for cloud, n in zip(x, counts)])
        tokens = self.project(images)  # (B, dim, rows, columns)
        grid = (tokens.shape[2], tokens.shape[3])
        low, high = self.inclinations
        steps = [torch.arange(n, dtype=torch.float32, device=x.device) + 0.5 for n in grid]
        axes = high - steps[0] * ((high - low) / grid[0]), steps[1] * (360 / grid[1])
        return self.with_tokens(tokens.flatten(2).mT, torch.cartesian_prod(*axes)[None], grid=grid)
