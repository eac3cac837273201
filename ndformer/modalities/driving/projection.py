"""Projection of points into cameras, and the ground point of each patch. Image lengths are in patches."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import tensor_like

MIN_DEPTH = 1e-5  # meters in front of the camera from which points are visible
CHUNK = 1 << 22  # distances computed at once


def matrices(camera_to_lidar: Tensor, intrinsics: Tensor, patch: int, present: Tensor | None = None) -> Tensor:
    """Return projections (..., 3, 4) float32 of cameras: from homogeneous points to (row, column, 1) times depth.

    A camera that is not `present` has a matrix of zeros, so no point is in front of it.
    """
    mask = torch.ones_like(camera_to_lidar[..., 0, 0], dtype=torch.bool) if present is None else present
    home = torch.eye(4, dtype=torch.float64, device=camera_to_lidar.device)
    pose = torch.where(mask[..., None, None], camera_to_lidar.double(), home)
    image = intrinsics.double() @ torch.linalg.inv(pose)[..., :3, :]
    rows = torch.stack([image[..., 1, :] / patch, image[..., 0, :] / patch, image[..., 2, :]], -2)
    return torch.where(mask[..., None, None], rows, 0.0).float()


def lifted(matrix: Tensor, view: tuple[int, int]) -> Tensor:
    """Return the cameras (B, C rows columns, 4, 4) of all patches from projections (B, C, 3, 4), as in `Where`.

    They map points of the LiDAR's frame to image coordinates from -0.5 to 0.5.
    """
    row, column, depth = matrix.unbind(-2)
    last = torch.zeros_like(depth)
    last[..., 3] = 1
    cameras = torch.stack([column / view[1] - depth / 2, row / view[0] - depth / 2, depth, last], -2)
    return cameras.repeat_interleave(view[0] * view[1], 1)


def projected(matrix: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Project points (N, 3) into cameras (C, 3, 4): rows and columns (C, N, 2), and depths (C, N)."""
    with without_autocast(points):
        image = torch.einsum("cij,nj->cni", matrix[..., :3], points) + matrix[:, None, :, 3]
    depth = image[..., 2]
    return image[..., :2] / depth.clamp(min=MIN_DEPTH)[..., None], depth


def first_view(matrix: Tensor, points: Tensor, view: tuple[int, int]) -> Tensor:
    """Return (N, 3): the first camera that sees each point, and its row and column there.

    A point that no camera sees has its position in camera 0, clipped to at most one image size outside.
    """
    if len(matrix) == 0:
        return points.new_zeros(len(points), 3)
    places, depth = projected(matrix, points)
    size = tensor_like(view, places)
    inside = (depth > MIN_DEPTH) & (places > 0).all(-1) & (places < size).all(-1)  # (C, N)
    first = inside.long().argmax(0)
    selected = places.gather(0, first[None, :, None].expand(1, -1, 2))[0]
    selected = torch.minimum(torch.maximum(selected, -size), 2 * size)
    return torch.cat([first[:, None].to(selected.dtype), selected], 1)


@dataclass(frozen=True)
class Ground:
    """Points above the cells of a bird's-eye view, at the center of each cell and layer."""

    low: tuple[float, float]
    high: tuple[float, float]
    cell: float
    heights: tuple[float, float]
    layers: int

    @property
    def cells(self) -> tuple[int, int]:
        return cells(self.low, self.high, self.cell)

    def axes(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the coordinates of the points along x, y and z."""
        sides = [*zip(self.low, self.high, self.cells), (*self.heights, self.layers)]
        x, y, z = (tensor_like(_middles(*side), like) for side in sides)
        return x, y, z

    def nearest_cells(self, matrix: Tensor, view: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Return the cell (M, 2) of each patch of a camera (3, 4) with `view` rows and columns, and its offset (M, 2).

        It is the cell of the point whose projection is nearest to the patch's center, in shares of the image; the
        offset is in patches. Ties go to the lowest layer, then to the smallest x. Without any visible point, a patch is
        in the middle of the bird's-eye view.
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
        """Return row and column (H, 2) of the points that the camera sees, and their numbers (H,).

        All layers are computed at once, so that there is one device synchronization.
        """
        x, y, z = self.axes(matrix)
        plane = matrix[:, 0, None, None] * x[:, None] + matrix[:, 1, None, None] * y + matrix[:, 3, None, None]
        layers = plane.flatten(1)[:, None] + matrix[:, 2, None, None] * z[:, None]  # (3, L, cells)
        row, column, depth = layers.flatten(1)
        row, column = row / depth.clamp(min=MIN_DEPTH), column / depth.clamp(min=MIN_DEPTH)
        inside = (depth > MIN_DEPTH) & (row > 0) & (row < view[0]) & (column > 0) & (column < view[1])
        number = inside.nonzero().squeeze(1)
        return torch.stack([row[number], column[number]], 1), number


def _middles(low: float, high: float, n: int) -> Tensor:
    return low + (torch.arange(n, dtype=torch.float64) + 0.5) * ((high - low) / n)


def cells(low: tuple[float, float], high: tuple[float, float], cell: float) -> tuple[int, int]:
    """Return the number of cells along x and y."""
    return round((high[0] - low[0]) / cell), round((high[1] - low[1]) / cell)


def _nearest(hits: Tensor, middles: Tensor, view: tuple[int, int], share: Tensor) -> Tensor:
    """Return the first of the hits (H, 2) nearest to each patch's center (M, 2).

    The nearest hit in the patch itself is the nearest of all if it is nearer than any border of the patch. For other
    patches, candidates are limited to patches that can have a nearer hit.
    """
    none = len(hits)
    bins = hits.floor().long()
    owner = bins[:, 0] * view[1] + bins[:, 1]
    away = ((hits - middles[owner]) * share).square().sum(1)
    best = torch.full((len(middles),), torch.inf, device=hits.device).scatter_reduce(0, owner, away, "amin")
    order = torch.arange(none, device=hits.device)
    first = torch.full((len(middles),), none, device=hits.device)
    first = first.scatter_reduce(0, owner, torch.where(away == best[owner], order, none), "amin")
    unsure = (best > (share.min() / 2) ** 2).nonzero().squeeze(1)
    if len(unsure) == 0:
        return first
    gap = ((middles[unsure, None] - middles).abs() - 0.5).clamp(min=0) * share  # (r, M, 2) to the border of each patch
    occupied = first < none
    point = hits[first.clamp(max=none - 1)]
    nearest = ((middles[unsure, None] - point) * share).square().sum(2).masked_fill(~occupied, torch.inf)
    bound = nearest.amin(1)  # (r,)
    candidates = ((gap.square().sum(2) <= bound[:, None] * (1 + 1e-6)) & occupied).any(0)
    index = candidates[owner].nonzero().squeeze(1)
    for part in unsure.split(max(1, CHUNK // max(1, len(index)))):
        away = ((hits[index] - middles[part, None]) * share).square().sum(2)  # (part, candidates)
        first[part] = torch.where(away == away.amin(1, keepdim=True), index, none).amin(1)
    return first
