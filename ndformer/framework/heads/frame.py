"""Coordinate transforms between the model input and the image on disk: original = input * scale + offset.

A sample whose image was resized, cropped or flipped has a `frame` (scale x, scale y, offset x, offset y) and the `size`
(height, width) of the image on disk.
"""

from typing import Any

import torch
from torch import Tensor


def original(boxes: Tensor, sample: dict[str, Any]) -> Tensor:
    """Convert boxes from pixels of the input to pixels of the image on disk, clipped to that image."""
    if "frame" not in sample:
        return boxes
    scale, offset = torch.as_tensor(sample["frame"]).to(boxes).view(2, 2)
    height, width = sample["size"]
    moved = (boxes * scale.repeat(2) + offset.repeat(2)).clamp(min=0).minimum(boxes.new_tensor([width, height] * 2))
    low, high = moved.chunk(2, -1)  # a flipped input has negative scales
    return torch.cat([low.minimum(high), low.maximum(high)], -1)


def original_grid(sample: dict[str, Any], shape: tuple[int, int], device: torch.device) -> Tensor:
    """Return (H, W, 2) grid_sample coordinates in an input of `shape` for every pixel of the image on disk.

    Without a `frame`, the input is the image on disk.
    """
    height, width = sample["size"] if "frame" in sample else shape
    frame = torch.as_tensor(sample.get("frame", (1.0, 1.0, 0.0, 0.0)), dtype=torch.float32).tolist()
    axes = []  # columns, then rows
    for n, side, scale, offset in zip((width, height), (shape[1], shape[0]), frame[:2], frame[2:]):
        inside = (torch.arange(n, device=device) + 0.5 - offset) / scale
        axes.append(2 * inside / side - 1)
    return torch.stack(torch.meshgrid(*axes, indexing="xy"), -1)
