"""The positions of LiDAR and camera tokens in the planes that UniTR divides into windows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Rows, TokenSet
from ndformer.modalities.driving.models.unitr.sets import partition

AXES = ("x", "y", "view", "row", "column", "row off", "column off")  # of token positions
PILLARS, PATCHES = 0, 1  # TokenSet.modality
SENSOR_PLANES = ("lidar", "camera")  # planes of a single sensor


@dataclass(frozen=True, eq=False)
class Flat:
    """The tokens of a padded set without padding: the pillars of all samples, then the patches of all samples."""

    places: Tensor  # (T, 7)
    sample: Tensor  # (T,)
    index: Tensor  # (T,) indices among the B N tokens of the set
    pillars: int
    shape: tuple[int, int]  # B, N
    cameras: Tensor | None = None  # (T, 4, 4)

    @classmethod
    def from_tokens(cls, tokens: TokenSet) -> Flat:
        where, (B, N) = tokens.where, tokens.features.shape[:2]
        if where.positions.shape[2] != len(AXES):
            raise ValueError(
                f"UniTR expects tokens at ({', '.join(AXES)}), got {where.positions.shape[2]} position dimensions. "
                "Use the adapters Pillars and CameraPatches."
            )
        device = tokens.features.device
        kind = torch.zeros(B, N, dtype=torch.int64, device=device) if tokens.modality is None else tokens.modality
        valid = torch.ones(1, 1, dtype=torch.bool, device=device) if where.valid is None else where.valid
        groups = [((kind == k) & valid).expand(B, N).flatten().nonzero().squeeze(1) for k in (PILLARS, PATCHES)]
        index = torch.cat(groups)
        places = where.positions.expand(B, -1, -1).flatten(0, 1)[index]
        cameras = None if where.cameras is None else where.cameras.expand(B, -1, -1, -1).flatten(0, 1)[index]
        return cls(places, index // max(N, 1), index, len(groups[0]), (B, N), cameras)

    def token_slice(self, plane: str) -> slice:
        """Return the slice of the tokens in a plane."""
        return slice(self.pillars if plane == "camera" else 0, self.pillars if plane == "lidar" else len(self.index))

    def flat(self, x: Tensor) -> Tensor:
        """Select the tokens (T, C) of padded values (B, N, C)."""
        return x.flatten(0, 1).index_select(0, self.index)

    def padded(self, x: Tensor) -> Tensor:
        """Return padded values (B, N, C) of tokens (T, C), 0 where there is no token."""
        B, N = self.shape
        return x.new_zeros(B * N, x.shape[1]).index_copy(0, self.index, x).unflatten(0, (B, N))


@dataclass(frozen=True)
class Plane:
    """A plane that is divided into windows, for each sample or, with `views`, for each view of a sample.

    Its coordinates are the `axes` of positions, relative to `corner`, in cells of `length`.
    """

    axes: tuple[int, int]
    corner: tuple[float, float]
    length: float = 1.0
    views: bool = False

    def cells(self, places: Tensor) -> Tensor:
        """Return fractional cell coordinates (T, 2) of positions (T, 7)."""
        return (
            torch.stack([places[:, axis] for axis in self.axes], 1) - tensor_like(self.corner, places)
        ) / self.length

    def group(self, places: Tensor, sample: Tensor) -> Tensor:
        """Return the index (T,) of the plane of each token."""
        if not self.views:
            return sample
        view = places[:, 2].long()
        return sample * (view.amax() + 1 if len(view) else 1) + view


@dataclass(frozen=True)
class Windows:
    """Windows of `window` cells, shifted by `shift` in every second layer, divided into sets of `size` tokens."""

    window: tuple[int, int]
    shift: tuple[int, int]
    size: int

    def sets(self, cells: Tensor, group: Tensor, moved: bool, major: int) -> Rows:
        return partition(cells.floor().long(), group, self.window, self.shift if moved else (0, 0), self.size, major)

    def inside(self, cells: Tensor, moved: bool, integer: bool) -> Tensor:
        """Return coordinates (T, 2) relative to the middle of the window, in (whole) cells."""
        window = tensor_like(self.window, cells)
        cells = cells + tensor_like(self.shift, cells) if moved else cells
        cells = cells - (cells.floor() / window).floor() * window
        return (cells.floor() if integer else cells) - window / 2
