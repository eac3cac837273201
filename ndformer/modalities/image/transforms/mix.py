"""MixUp and CutMix: blend the images and labels of a training batch."""

import torch
from torch import Tensor

from ndformer.framework.data.mixer import Mixer
from ndformer.framework.registry import MIXERS
from ndformer.framework.registry.ranges import NonNegative
from ndformer.framework.system.processes import gather, rows


@MIXERS.register_module()
class ImageMix(Mixer):
    """Apply MixUp (Zhang 2018) or CutMix (Yun 2019) to each batch, with equal probability where both are given.

    MixUp: lambda x + (1 - lambda) x', lambda ~ Beta(mixup, mixup). CutMix: a box of x' with about 1 - lambda of the
    area, lambda ~ Beta(cutmix, cutmix), corrected to the clipped box. x' is the batch of all processes in another
    order.
    """

    def __init__(self, mixup: NonNegative = 0.0, cutmix: NonNegative = 0.0) -> None:
        if mixup <= 0 and cutmix <= 0:
            raise ValueError(
                "ImageMix needs mixup or cutmix above 0: they are the parameters of its Beta distributions"
            )
        self.mixup, self.cutmix = mixup, cutmix

    def __call__(self, inputs: dict[str, Tensor], targets: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Mix `inputs['image']` (B, C, H, W) and one-hot or soft `targets` (B, classes)."""
        images = inputs["image"]
        if not isinstance(images, Tensor):
            raise ValueError(
                f"ImageMix mixes images of one size, got a list of {len(images)} images of different sizes. Set "
                "model.mix=None; or, without batch_tokens, put a Resize or a crop before PackImage"
            )
        cut = self.cutmix > 0 and (self.mixup <= 0 or bool(torch.rand(()) < 0.5))
        alpha = self.cutmix if cut else self.mixup
        share = float(torch.distributions.Beta(alpha, alpha).sample())
        others, others_targets = gather(images), gather(targets)
        order = torch.randperm(others.shape[0])[rows(images.shape[0])]
        if cut:
            top, bottom, left, right = box(images.shape[2], images.shape[3], share)
            images = images.clone()
            images[:, :, top:bottom, left:right] = others[order, :, top:bottom, left:right]
            share = 1 - (bottom - top) * (right - left) / (images.shape[2] * images.shape[3])
        else:
            images = share * images + (1 - share) * others[order]
        return inputs | dict(image=images), share * targets + (1 - share) * others_targets[order]


def box(height: int, width: int, share: float) -> tuple[int, int, int, int]:
    """Return a box around a random point with 1 - share of the area, clipped at the borders."""
    size = (1 - share) ** 0.5
    y, x = int(torch.randint(height, ())), int(torch.randint(width, ()))
    h, w = int(height * size) // 2, int(width * size) // 2
    return max(0, y - h), min(height, y + h), max(0, x - w), min(width, x + w)
