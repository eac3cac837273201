"""Where points are in cameras, and which ground a patch of a camera looks at. Lengths in a picture are in patches."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like

NEAR = 1e-5  # metres before the camera, from which on a point is seen
CHUNK = 1 << 22  # distances that are computed at once


def matrices(camera_to_lidar: Tensor, intrinsics: Tensor, patch: int, seen: Tensor | None = None) -> Tensor:
    """(..., 3, 4) float32, of all cameras: from a homogeneous point to (row, column, 1) times its depth.

    A camera that is not `seen` has a matrix of zeros: nothing is before it.
    """
    there = torch.ones_like(camera_to_lidar[..., 0, 0], dtype=torch.bool) if seen is None else seen
    home = torch.eye(4, dtype=torch.float64, device=camera_to_lidar.device)
    pose = torch.where(there[..., None, None], camera_to_lidar.double(), home)
    image = intrinsics.double() @ torch.linalg.inv(pose)[..., :3, :]
    rows = torch.stack([image[..., 1, :] / patch, image[..., 0, :] / patch, image[..., 2, :]], -2)
    return torch.where(there[..., None, None], rows, 0.0).float()


def projected(matrix: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Points (N, 3) in cameras (C, 3, 4): rows and columns (C, N, 2), and depths (C, N)."""
    with without_autocast(points):
        at = torch.einsum("cij,nj->cni", matrix[..., :3], points) + matrix[:, None, :, 3]
    depth = at[..., 2]
    return at[..., :2] / depth.clamp(min=NEAR)[..., None], depth


def first_view(matrix: Tensor, points: Tensor, view: tuple[int, int]) -> Tensor:
    """(N, 3) the first camera that sees each point, its row and its column there; for a point that none sees, those in
    camera 0, at most one picture beside it."""
    if len(matrix) == 0:
        return points.new_zeros(len(points), 3)
    at, depth = projected(matrix, points)
    size = tensor_like(view, at)
    inside = (depth > NEAR) & (at > 0).all(-1) & (at < size).all(-1)  # (C, N)
    first = inside.long().argmax(0)
    own = at.gather(0, first[None, :, None].expand(1, -1, 2))[0]
    own = torch.minimum(torch.maximum(own, -size), 2 * size)
    return torch.cat([first[:, None].to(own.dtype), own], 1)


@dataclass(frozen=True)
class Ground:
    """Points above the cells of a bird's-eye view, one in the middle of each cell and layer."""

    low: tuple[float, float]
    high: tuple[float, float]
    cell: float
    heights: tuple[float, float]
    layers: int

    @property
    def cells(self) -> tuple[int, int]:
        return cells(self.low, self.high, self.cell)

    def axes(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The coordinates of these points along x, y and z."""
        sides = [*zip(self.low, self.high, self.cells), (*self.heights, self.layers)]
        x, y, z = (tensor_like(_middles(*side), like) for side in sides)
        return x, y, z

    def seen(self, matrix: Tensor, view: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Of one camera (3, 4), that has `view` rows and columns: for each patch the cell (M, 2) of the point nearest
        to its middle, both measured in shares of the picture, and how far that is off in patches (M, 2).

        Of points equally near the lowest counts, of these the one of the smallest x. Where no point is seen at all, a
        patch stands in the middle of the view from above.
        """
        nx, ny = self.cells
        hits, number = self._hits(matrix, view)  # (H, 2), (H,)
        rows, columns = view
        middles = torch.cartesian_prod(*(torch.arange(side, device=matrix.device) for side in view)).to(matrix) + 0.5
        if len(hits) == 0:
            return tensor_like([nx // 2, ny // 2], matrix).expand(len(middles), 2), middles * 0
        share = tensor_like([1 / rows, 1 / columns], hits)
        nearest = _nearest(hits, middles, view, share)
        chosen = number[nearest] % (nx * ny)
        return torch.stack([chosen.div(ny, rounding_mode="floor"), chosen % ny], 1), hits[nearest] - middles

    def _hits(self, matrix: Tensor, view: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Row and column of the points that the camera sees, and their numbers: layer by layer, none expanded. All at
        once, a GPU is waited for once."""
        x, y, z = self.axes(matrix)
        plane = matrix[:, 0, None, None] * x[:, None] + matrix[:, 1, None, None] * y + matrix[:, 3, None, None]
        layers = plane.flatten(1)[:, None] + matrix[:, 2, None, None] * z[:, None]  # (3, L, cells)
        row, column, depth = layers.flatten(1)
        row, column = row / depth.clamp(min=NEAR), column / depth.clamp(min=NEAR)
        inside = (depth > NEAR) & (row > 0) & (row < view[0]) & (column > 0) & (column < view[1])
        number = inside.nonzero().squeeze(1)
        return torch.stack([row[number], column[number]], 1), number


def _middles(low: float, high: float, n: int) -> Tensor:
    return low + (torch.arange(n, dtype=torch.float64) + 0.5) * ((high - low) / n)


def cells(low: tuple[float, float], high: tuple[float, float], cell: float) -> tuple[int, int]:
    """How many along x and y."""
    return round((high[0] - low[0]) / cell), round((high[1] - low[1]) / cell)


def _nearest(hits: Tensor, middles: Tensor, view: tuple[int, int], share: Tensor) -> Tensor:
    """(M,) the first of the hits (H, 2) nearest to each patch's middle (M, 2).

    The nearest within a patch is the nearest of all where it is nearer than any border. For the others, patches that
    cannot have it are left out, and the rest is looked through.
    """
    none = len(hits)
    bins = hits.floor().long()
    own = bins[:, 0] * view[1] + bins[:, 1]
    away = ((hits - middles[own]) * share).square().sum(1)
    best = torch.full((len(middles),), torch.inf, device=hits.device).scatter_reduce(0, own, away, "amin")
    order = torch.arange(none, device=hits.device)
    first = torch.full((len(middles),), none, device=hits.device)
    first = first.scatter_reduce(0, own, torch.where(away == best[own], order, none), "amin")
    rest = (best > (share.min() / 2) ** 2).nonzero().squeeze(1)
    if len(rest) == 0:
        return first
    gap = ((middles[rest, None] - middles).abs() - 0.5).clamp(min=0) * share  # (r, M, 2) to the border of each patch
    there = first < none
    point = hits[first.clamp(max=none - 1)]
    least = ((middles[rest, None] - point) * share).square().sum(2).masked_fill(~there, torch.inf).amin(1)  # (r,)
    asked = ((gap.square().sum(2) <= least[:, None] * (1 + 1e-6)) & there).any(0)
    kept = asked[own].nonzero().squeeze(1)
    for part in rest.split(max(1, CHUNK // max(1, len(kept)))):
        away = ((hits[kept] - middles[part, None]) * share).square().sum(2)  # (part, kept)
        nearest = torch.where(away == away.amin(1, keepdim=True), kept, none).amin(1)
        first[part] = nearest
    return first
