"""Images to tokens: one per patch, at its row and column."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ndformer.framework.adapter import Adapter, ClassPosition
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.pictures.canvas import Canvas, GridCanvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Few, FewOrNone, Finite, Offset, Width
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.image.formats.files import ENDINGS, open_image
from ndformer.modalities.image.formats.held import held_image
from ndformer.modalities.image.pictures.tokens import apart


@MODALITIES.register_module()
class ImagePatches(Adapter):
    """(B, channels, height, width) -> tokens of patch x patch pixels at (row, column), counted in patches from `start`.

    Class and register tokens come first and have no place of their own; with `class_at='origin'` they stand at 0, the
    PaPE repository's way (with `start=1`), with 'centre' in the middle of the patches, with 'auto' where the model's
    encoding reads it best. Any size that divides into patches works.

    `plane` puts the image into a space of other modalities: where the first patch is, the step to the next row and the
    step to the next column, (x, y, z) each.
    """

    endings = ENDINGS  # files that open() reads
    axes = ("row", "column")
    more_tokens = "Set a smaller `patch` of the modality, or a larger size in the transforms of each loader."

    def __init__(
        self,
        dim: Width,
        patch: Few = 16,
        channels: Width = 3,
        class_token: bool = True,
        registers: FewOrNone = 0,
        class_at: ClassPosition = "nowhere",
        start: Offset = 0,
        plane: Sequence[Sequence[Finite]] | None = None,
    ) -> None:
        super().__init__()
        if plane is not None and (len(plane) != 3 or len({len(vector) for vector in plane}) != 1):
            raise ValueError(f"plane is (first patch, step to the next row, step to the next column), got {plane}")
        self.plane = plane
        if plane is not None:
            self.axes = ("x", "y", "z") if len(plane[0]) == 3 else ()
        self.patch, self.channels, self.start = patch, channels, start
        self.project = nn.Conv2d(channels, dim, kernel_size=patch, stride=patch)
        self.add_tokens(dim, class_token, registers, class_at)

    def open(self, path: Path) -> Sample:
        return dict(image=open_image(path, self.mode))

    def from_memory(self, value: Any) -> Sample:
        return dict(image=held_image(value, self.mode))

    @property
    def mode(self) -> str:
        """Pillow's word for pictures of so many channels."""
        return "RGB" if self.channels == 3 else "L"

    @property
    def position_dims(self) -> int:
        return 2 if self.plane is None else len(self.plane[0])

    @property
    def patch_sides(self) -> tuple[int, int]:
        return self.patch, self.patch

    def pictures(self, sample: Sample, pack: Pack) -> list[np.ndarray]:
        return [apart(pack.picture(sample, 0), (self.patch, self.patch))]

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        """Of the photo, where there is one in more pixels than the model is given."""
        rows, columns = (side // self.patch for side in sample["inputs"]["image"].shape[-2:])
        return GridCanvas(pack.picture(sample.get("photo", sample), 0)[None], (rows, columns))

    def forward(self, images: Tensor | list[Tensor]) -> TokenSet:
        if isinstance(images, list):
            sizes = ", ".join(sorted({f"{i.shape[1]} x {i.shape[2]}" for i in images})[:3])
            raise ValueError(
                f"images of one batch are of one size, got {sizes}: put a Resize or a crop before PackImage"
            )
        if images.dim() != 4 or not images.is_floating_point():
            raise ValueError(
                "images are (batch, channels, height, width) of normalised floats, as PackImage makes them, got "
                f"{tuple(images.shape)} of {images.dtype}: images[None] is a batch of one, images / 255 a float"
            )
        _, C, height, width = images.shape
        if self.channels != C or height % self.patch or width % self.patch:
            raise ValueError(
                f"images must have {self.channels} channels and sides that patches of {self.patch} divide, "
                f"got {C} x {height} x {width}"
            )
        x = self.project(images)  # (B, dim, rows, columns)
        grid = (x.shape[2], x.shape[3])
        x = x.flatten(2).transpose(1, 2)
        axes = [torch.arange(n, dtype=torch.float32, device=x.device) + self.start for n in grid]
        positions = torch.cartesian_prod(*axes)[None]  # (1, rows columns, 2)
        if self.plane is not None:
            first, *steps = tensor_like(torch.tensor(self.plane, dtype=torch.float32), positions)
            positions = first + positions @ torch.stack(steps)  # (1, rows columns, 3)
        return self.with_tokens(x, positions, grid=grid if self.plane is None else None)
