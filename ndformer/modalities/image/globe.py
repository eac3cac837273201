"""Adapter that turns gridded fields of the whole Earth into tokens, whose longitudes lie on a circle."""

import torch
from torch import Tensor

from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Few, Width
from ndformer.modalities.image.adapter import ImagePatches


@MODALITIES.register_module()
class GlobePatches(ImagePatches):
    """Turn fields (B, channels, latitudes, longitudes) into one token for each patch of `patch` x `patch` cells.

    Rows run from the north pole to the south pole and columns once around the Earth, in equal steps. A token is at
    (latitude, longitude) in degrees, the middle of its patch, with longitudes counted from the first column, and they
    have a period of 360. `position_scale='auto'` of the encoding counts them in patches. Everything else is as in
    ImagePatches.
    """

    axes = ("latitude", "longitude")
    periods = (None, 360.0)

    def __init__(
        self, dim: Width, patch: Few = 8, channels: Width = 1, class_token: bool = True, packed: bool = True
    ) -> None:
        super().__init__(dim, patch, channels, class_token, packed=packed)

    def _positions(self, cells: Tensor, shapes: Tensor | tuple[int, ...], size: int) -> Tensor:
        rows, columns = shapes.unbind(-1) if isinstance(shapes, Tensor) else shapes
        row, column = (cells.float() + 0.5).unbind(-1)
        return torch.stack([90 - row * (180 / rows), column * (360 / columns)], -1)
