"""The grid of a bird's-eye-view (BEV) map."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.system.devices import tensor_like


@dataclass(frozen=True)
class BEVGrid:
    """A grid of square cells of `step` meters, starting at `low`; maps have (y, x) as last two axes."""

    low: tuple[float, float]
    step: float
    shape: tuple[int, int]  # cells along y and x

    def to_cells(self, boxes: Tensor) -> Tensor:
        """Return the centers of boxes as fractional cell coordinates (x, y), (..., 2)."""
        return (boxes[..., :2] - tensor_like(self.low, boxes)) / self.step

    def contains(self, cells: Tensor) -> Tensor:
        """Return which cell coordinates (x, y), (..., 2), are inside the grid."""
        high = tensor_like(self.shape[::-1], cells)
        return (cells >= 0).all(-1) & (cells < high).all(-1)

    def flat_index(self, cells: Tensor) -> Tensor:
        """Return the row-major cell index of coordinates (x, y), clamped to the grid."""
        x, y = (cells[..., p].floor().long().clamp(0, self.shape[1 - p] - 1) for p in range(2))
        return y * self.shape[1] + x

    def centers(self, like: Tensor) -> Tensor:
        """Return cell coordinates (x, y) of all cell centers, (cells, 2), in float32 or float64."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        y, x = (torch.arange(n, device=like.device, dtype=dtype) + 0.5 for n in self.shape)
        return torch.cartesian_prod(y, x).flip(1)
