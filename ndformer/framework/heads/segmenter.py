"""A semantic segmentation head that sums the levels of a feature pyramid at the finest resolution."""

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.pixels import Pixels
from ndformer.framework.heads.frame import original_grid
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.losses.labels import checked, label_loss
from ndformer.framework.necks.pyramid import ChannelNorm
from ndformer.framework.packing import by_grid
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Few, NonNegative, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import TokenSet

CHUNK_PIXELS = 2**16  # pixels interpolated together: scores of all classes of a large image would not fit in memory


@HEADS.register_module()
class Segmenter(Head):
    """A 1 x 1 convolution per level, their sum, and a 1 x 1 classifier (a light Panoptic FPN, Kirillov 2019).

    The loss is cross entropy plus `lovasz` times the Lovasz-Softmax loss. A sample has a `mask` (H, W) in pixels of the
    input, negative where the class is unknown. Predictions have the size of the image on disk if the sample has a
    `frame`, otherwise the size of the input.
    """

    makes_maps = True
    output_axes = dict(logits=("batch", "classes", "rows", "columns"))

    def __init__(
        self, dim: Width, classes: Classes, neck: dict[str, Any], patch: Few = 16, lovasz: NonNegative = 0.0
    ) -> None:
        super().__init__()
        self.neck = NECKS.create(neck, dim=dim)
        self.reads_cells = self.neck.cells is not None
        self.classes, self.lovasz = classes, lovasz
        width = self.neck.width
        self.levels = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in self.neck.scales)
        self.answer = nn.Sequential(ChannelNorm(width), nn.GELU(), nn.Conv2d(width, classes, 1))
        self.patch, self.stride = patch, patch / max(self.neck.scales)

    def forward(self, tokens: TokenSet) -> Tensor | list[Tensor]:
        """Return float32 logits (B, classes, h, w), one per `stride` pixels.

        For images of different sizes it is a list of (classes, h, w), one tensor per image.
        """
        if tokens.where.grids is None:
            return self._logits(tokens)
        rows = {i: row for samples, part in by_grid(tokens) for i, row in zip(samples, self._logits(part))}
        return [rows[i] for i in range(len(rows))]

    def _logits(self, tokens: TokenSet) -> Tensor:
        """Return (B, classes, h, w) of images of one size."""
        maps = [level(x) for level, x in zip(self.levels, self.neck(tokens))]
        finest = max(self.neck.scales)
        size = maps[self.neck.scales.index(finest)].shape[-2:]
        resized = [_enlarged(x, finest / scale, size) for x, scale in zip(maps, self.neck.scales)]
        return self.answer(torch.stack(resized).sum(0)).float()

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Tensor | list[Tensor]:
        """Return (B, H, W) classes, or a list of (H, W) for images of different sizes."""
        masks = [checked(sample["mask"], self.classes, sample) for sample in data_samples]
        if len({mask.shape for mask in masks}) == 1:
            return torch.stack(masks).to(device, non_blocking=True)
        return [mask.to(device, non_blocking=True) for mask in masks]

    def loss(self, tokens: TokenSet, targets: Tensor | list[Tensor]) -> dict[str, Tensor]:
        if tokens.where.grids is None:
            logits, labels = self._logits(tokens), cast(Tensor, targets)
            with without_autocast(logits):
                return label_loss(_enlarged(logits, self.stride, labels.shape[-2:]), labels, self.lovasz)
        scores, classes = [], []  # of all pixels: (pixels, classes) and (pixels,) of each size
        for samples, part in by_grid(tokens):
            logits, labels = self._logits(part), torch.stack([targets[i] for i in samples])
            with without_autocast(logits):
                scores.append(_enlarged(logits, self.stride, labels.shape[-2:]).movedim(1, -1).flatten(0, -2))
            classes.append(labels.flatten())
        return label_loss(torch.cat(scores), torch.cat(classes), self.lovasz)

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        logits = finite(self(tokens), data_samples)
        grids = tokens.where.grids or [tokens.where.grid] * len(logits)
        masks = [self._mask_on_disk(*each) for each in zip(logits, data_samples, grids)]
        flat = torch.cat([mask.flatten() for mask in masks]).cpu().split([mask.numel() for mask in masks])
        return [
            Pixels(sample=sample, predicted=values.view(mask.shape), classes=self.classes)
            for sample, values, mask in zip(data_samples, flat, masks)
        ]

    def _mask_on_disk(self, logits: Tensor, sample: dict[str, Any], patches: tuple[int, ...] | None) -> Tensor:
        """Return (H, W): the argmax of the interpolated logits at the center of each pixel of the image on disk."""
        height, width = (round(side * self.stride) for side in logits.shape[-2:])
        grid = original_grid(sample, (height, width), logits.device)
        parts = []
        for points in grid.flatten(0, 1).split(CHUNK_PIXELS):
            scores = F.grid_sample(logits[None], points[None, None], padding_mode="border", align_corners=False)
            parts.append(scores[0, :, 0].argmax(0).to(torch.uint8 if self.classes < 256 else torch.int32))
        mask = torch.cat(parts).view(grid.shape[:2])
        if "frame" in sample or patches is None or self.reads_cells:
            return mask
        rows, columns = (n * cast(int, self.patch) for n in patches)  # coarse maps may go beyond the input
        return mask[:rows, :columns]


def _enlarged(x: Tensor, factor: float, size: Sequence[int]) -> Tensor:
    """Return a map enlarged by a factor, and cut to a size: a last cell can lie half outside of the image."""
    if factor != 1:
        x = F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)
    return x[..., : size[0], : size[1]]
