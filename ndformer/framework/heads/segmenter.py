"""A class for every pixel: the maps of a pyramid, added up at the size of the finest."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.pixels import Pixels
from ndformer.framework.heads.frame import original_grid
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.losses.labels import checked, label_loss
from ndformer.framework.necks.pyramid import ChannelNorm
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Few, NonNegative, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import TokenSet

PIXELS = 2**16  # of an image on disk, that are answered at once: scores of many classes are large


@HEADS.register_module()
class Segmenter(Head):
    """A 1 x 1 convolution for each level, their sum, and one more for the classes (the light form of Kirillov 2019).

    Trained by cross entropy, plus `lovasz` times the Lovasz-Softmax loss. A sample has its `mask` (H, W) in pixels of
    the input, negative where nobody knows. What is `predicted` has the `size` of the image on disk where there is a
    `frame` that leads to it, else that of the input.
    """

    output_axes = dict(logits=("batch", "classes", "rows", "columns"))

    def __init__(
        self, dim: Width, classes: Classes, neck: dict[str, Any], patch: Few = 16, lovasz: NonNegative = 0.0
    ) -> None:
        super().__init__()
        self.neck = NECKS.create(neck, dim=dim)
        self.classes, self.lovasz = classes, lovasz
        width = self.neck.width
        self.levels = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in self.neck.scales)
        self.answer = nn.Sequential(ChannelNorm(width), nn.GELU(), nn.Conv2d(width, classes, 1))
        self.stride = patch / max(self.neck.scales)

    def forward(self, tokens: TokenSet) -> Tensor:
        """(B, classes, h, w) float32 logits, one per `stride` pixels."""
        maps = [level(x) for level, x in zip(self.levels, self.neck(tokens))]
        finest = max(maps, key=lambda x: x.shape[-1]).shape[-2:]
        together = [x if x.shape[-2:] == finest else _enlarged(x, finest) for x in maps]
        return self.answer(torch.stack(together).sum(0)).float()

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Tensor:
        """(B, H, W)."""
        masks = torch.stack([checked(sample["mask"], self.classes, sample) for sample in data_samples])
        return masks.to(device, non_blocking=True)

    def loss(self, tokens: TokenSet, targets: Tensor) -> dict[str, Tensor]:
        logits = self(tokens)
        with without_autocast(logits):
            return label_loss(_enlarged(logits, targets.shape[-2:]), targets, self.lovasz)

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        logits = finite(self(tokens), data_samples)
        maps = [self._on_disk(one, sample) for one, sample in zip(logits, data_samples)]
        home = torch.cat([one.flatten() for one in maps]).cpu().split([one.numel() for one in maps])
        return [
            Pixels(sample=sample, predicted=one.view(there.shape), classes=self.classes)
            for sample, one, there in zip(data_samples, home, maps)
        ]

    def _on_disk(self, logits: Tensor, sample: dict[str, Any]) -> Tensor:
        """(H, W) the class with the largest score, interpolated, at the centre of each pixel."""
        height, width = (round(side * self.stride) for side in logits.shape[-2:])
        grid = original_grid(sample, (height, width), logits.device)
        parts = []
        for places in grid.flatten(0, 1).split(PIXELS):
            scores = F.grid_sample(logits[None], places[None, None], padding_mode="border", align_corners=False)
            parts.append(scores[0, :, 0].argmax(0).to(torch.uint8 if self.classes < 256 else torch.int32))
        return torch.cat(parts).view(grid.shape[:2])


def _enlarged(x: Tensor, size: Any) -> Tensor:
    return F.interpolate(x, size=tuple(size), mode="bilinear", align_corners=False)
