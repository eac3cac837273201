"""The map from above that a scene is drawn on (bird's-eye view, BEV)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.system.devices import tensor_like


@dataclass(frozen=True)
class BEVGrid:
    """The cells of a map from above, `step` metres wide from `low` on: (y, x), as its last two axes."""

    low: tuple[float, float]
    step: float
    shape: tuple[int, int]  # cells along y and x

    def to_cells(self, boxes: Tensor) -> Tensor:
        """(..., 2) x and y in cells, with fractions."""
        return (boxes[..., :2] - tensor_like(self.low, boxes)) / self.step

    def contains(self, at: Tensor) -> Tensor:
        """Which of (..., 2) x and y are on the map."""
        high = tensor_like(self.shape[::-1], at)
        return (at >= 0).all(-1) & (at < high).all(-1)

    def flat_index(self, at: Tensor) -> Tensor:
        """(...,) the cell of x and y, row by row; the nearest one of what is beside the map."""
        x, y = (at[..., p].floor().long().clamp(0, self.shape[1 - p] - 1) for p in range(2))
        return y * self.shape[1] + x

    def centers(self, like: Tensor) -> Tensor:
        """(cells, 2) x and y of all cells, in cells, in float32 or finer."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        y, x = (torch.arange(n, device=like.device, dtype=dtype) + 0.5 for n in self.shape)
        return torch.cartesian_prod(y, x).flip(1)
