"""Where tokens of a LiDAR and of cameras are, in the planes that UniTR cuts into windows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ndformer.framework.backbones.unitr.sets import partition
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import Rows, TokenSet

AXES = ("x", "y", "view", "row", "column", "row off", "column off")  # of the positions that adapters give
PILLARS, PATCHES = 0, 1  # TokenSet.modality
OWN = ("lidar", "camera")  # the planes that they have for themselves


@dataclass(frozen=True, eq=False)
class Flat:
    """The tokens of a padded set without its padding: the pillars of all samples, then the patches of all samples."""

    places: Tensor  # (T, 7)
    sample: Tensor  # (T,)
    kept: Tensor  # (T,) which of the set's B N tokens they are
    pillars: int
    shape: tuple[int, int]  # B, N

    @classmethod
    def of(cls, tokens: TokenSet) -> Flat:
        where, (B, N) = tokens.where, tokens.features.shape[:2]
        if where.positions.shape[2] != len(AXES):
            raise ValueError(
                f"UniTR takes tokens at ({', '.join(AXES)}), got {where.positions.shape[2]} position dimensions: "
                "Pillars and CameraPatches give them"
            )
        device = tokens.features.device
        kind = torch.zeros(B, N, dtype=torch.int64, device=device) if tokens.modality is None else tokens.modality
        valid = torch.ones(1, 1, dtype=torch.bool, device=device) if where.valid is None else where.valid
        groups = [((kind == one) & valid).expand(B, N).flatten().nonzero().squeeze(1) for one in (PILLARS, PATCHES)]
        kept = torch.cat(groups)
        places = where.positions.expand(B, -1, -1).flatten(0, 1)[kept]
        return cls(places, kept // max(N, 1), kept, len(groups[0]), (B, N))

    def own(self, plane: str) -> slice:
        """The tokens that stand in a plane."""
        return slice(self.pillars if plane == "camera" else 0, self.pillars if plane == "lidar" else len(self.kept))

    def flat(self, x: Tensor) -> Tensor:
        """(B, N, C) -> (T, C)."""
        return x.flatten(0, 1).index_select(0, self.kept)

    def padded(self, x: Tensor) -> Tensor:
        """(T, C) -> (B, N, C), 0 where there is no token."""
        B, N = self.shape
        return x.new_zeros(B * N, x.shape[1]).index_copy(0, self.kept, x).unflatten(0, (B, N))


@dataclass(frozen=True)
class Plane:
    """What is cut into windows: `axes` of the positions, from `corner` on, in cells of `length`; a plane for each
    sample, and where `views` is set for each view of it."""

    axes: tuple[int, int]
    corner: tuple[float, float]
    length: float = 1.0
    views: bool = False

    def cells(self, places: Tensor) -> Tensor:
        """(T, 7) -> (T, 2), in cells with their fractions."""
        at = torch.stack([places[:, axis] for axis in self.axes], 1) - tensor_like(self.corner, places)
        return at / self.length

    def group(self, places: Tensor, sample: Tensor) -> Tensor:
        """(T,) the plane of each token."""
        if not self.views:
            return sample
        view = places[:, 2].long()
        return sample * (view.amax() + 1 if len(view) else 1) + view


@dataclass(frozen=True)
class Windows:
    """Of `window` cells, every second time moved by `shift`, cut into sets of `size`."""

    window: tuple[int, int]
    shift: tuple[int, int]
    size: int

    def sets(self, cells: Tensor, group: Tensor, moved: bool, major: int) -> Rows:
        return partition(cells.floor().long(), group, self.window, self.shift if moved else (0, 0), self.size, major)

    def inside(self, cells: Tensor, moved: bool, whole: bool) -> Tensor:
        """(T, 2) as seen from the middle of the window, in cells, or in whole ones."""
        window = tensor_like(self.window, cells)
        at = cells + tensor_like(self.shift, cells) if moved else cells
        at = at - (at.floor() / window).floor() * window
        return (at.floor() if whole else at) - window / 2
