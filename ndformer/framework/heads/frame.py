"""From pixels of the input to pixels of the image on disk: original = input * scale + offset, for x and y.

A sample that transforms have moved has its `frame` (scale x, scale y, offset x, offset y) and the `size` (height,
width) on disk.
"""

from typing import Any

import torch
from torch import Tensor


def original(boxes: Tensor, sample: dict[str, Any]) -> Tensor:
    """Boxes of the input in pixels of the image that it was made from, cut off at its borders."""
    if "frame" not in sample:
        return boxes
    scale, offset = torch.as_tensor(sample["frame"]).to(boxes).view(2, 2)
    height, width = sample["size"]
    moved = (boxes * scale.repeat(2) + offset.repeat(2)).clamp(min=0).minimum(boxes.new_tensor([width, height] * 2))
    low, high = moved.chunk(2, -1)  # a mirrored input has negative scales
    return torch.cat([low.minimum(high), low.maximum(high)], -1)


def original_grid(sample: dict[str, Any], shape: tuple[int, int], device: torch.device) -> Tensor:
    """(H, W, 2) x y: where the pixels of the image on disk lie in the input of `shape`, from -1 to 1 as grid_sample has
    it. Without a `frame`, the input is that image."""
    height, width = sample["size"] if "frame" in sample else shape
    frame = torch.as_tensor(sample.get("frame", (1.0, 1.0, 0.0, 0.0)), dtype=torch.float32).tolist()
    axes = []  # of columns and of rows, in pixels of the input
    for n, side, scale, offset in zip((width, height), (shape[1], shape[0]), frame[:2], frame[2:]):
        inside = (torch.arange(n, device=device) + 0.5 - offset) / scale
        axes.append(2 * inside / side - 1)
    return torch.stack(torch.meshgrid(*axes, indexing="xy"), -1)
