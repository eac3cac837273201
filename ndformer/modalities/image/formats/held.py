"""Pictures in memory: of Pillow, arrays (rows, columns[, channels]) and tensors (channels, rows, columns)."""

from typing import Any

import numpy as np
import torch
from PIL import Image

from ndformer.framework import foreign

WORDS = (
    "Pillow's, an array (rows, columns) or (rows, columns, 3), or a tensor (3, rows, columns), of bytes or of shares "
    "from 0 to 1"
)


def held_image(value: Any, mode: str) -> Image.Image:
    """As people see it, in `mode`, RGB or L."""
    if isinstance(value, Image.Image):
        foreign.check_pixels("the picture", *value.size)  # Pillow may not have decoded it yet
        return foreign.normalized_image(value, mode)
    return foreign.normalized_image(Image.fromarray(in_bytes(value)), mode)


def in_bytes(value: Any) -> np.ndarray:
    """(rows, columns) or (rows, columns, 3 or 4) uint8."""
    tensor = isinstance(value, torch.Tensor)
    if not tensor and not isinstance(value, np.ndarray):
        raise ValueError(f"a picture is {WORDS}, got a {type(value).__name__}")
    pixels = channels_last(value) if tensor else value
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if not pixels.size:
        raise ValueError(f"a picture is {WORDS}, and this one is empty, {tuple(value.shape)}")
    if not (pixels.ndim == 2 or pixels.ndim == 3 and pixels.shape[2] in (3, 4)):
        hint = "channels come last in an array, first in a tensor" if pixels.ndim == 3 else "give several as a list"
        raise ValueError(f"a picture is {WORDS}, got {tuple(value.shape)}: {hint}")
    return whole_bytes(pixels)


def channels_last(value: torch.Tensor) -> np.ndarray:
    """(..., channels, rows, columns) -> (..., rows, columns, channels)."""
    value = value.detach().cpu()
    value = value.float() if value.is_floating_point() else value
    return (value.movedim(-3, -1) if value.dim() > 2 else value).numpy()


def whole_bytes(pixels: np.ndarray) -> np.ndarray:
    """uint8, of whole numbers up to 255 or of shares of 1."""
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    white = 1 if pixels.dtype.kind == "f" else 255
    if pixels.dtype.kind not in "fiub" or not (pixels.min() >= 0 and pixels.max() <= white):
        reach = f" from {pixels.min():g} to {pixels.max():g}" if pixels.dtype.kind in "fiu" else ""
        raise ValueError(f"pixels are bytes, or shares from 0 to 1 as pixels / 255 has them; got {pixels.dtype}{reach}")
    return np.rint(pixels.astype(np.float64) * (255 // white)).astype(np.uint8)
