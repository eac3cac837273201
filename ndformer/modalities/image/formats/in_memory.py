"""Conversion of images in memory: Pillow, arrays (rows, columns[, channels]), tensors (channels, rows, columns)."""

from typing import Any

import numpy as np
import torch
from PIL import Image

from ndformer.framework import foreign

WORDS = (
    "a Pillow image, an array (rows, columns) or (rows, columns, 3), or a tensor (3, rows, columns), of bytes or of "
    "floats from 0 to 1"
)


def to_image(value: Any, mode: str) -> Image.Image:
    """Return an image in memory as a Pillow image in `mode`, RGB or L."""
    if isinstance(value, Image.Image):
        foreign.check_pixels("the picture", *value.size)  # Pillow may not have decoded it yet
        return foreign.normalized_image(value, mode)
    return foreign.normalized_image(Image.fromarray(to_pixels(value)), mode)


def to_pixels(value: Any) -> np.ndarray:
    """Return the pixels as a uint8 array (rows, columns) or (rows, columns, 3 or 4)."""
    tensor = isinstance(value, torch.Tensor)
    if not tensor and not isinstance(value, np.ndarray):
        raise ValueError(f"an image must be {WORDS}, got a {type(value).__name__}")
    pixels = channels_last(value) if tensor else value
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if not pixels.size:
        raise ValueError(f"an image must be {WORDS}, got an empty one, {tuple(value.shape)}")
    if not (pixels.ndim == 2 or pixels.ndim == 3 and pixels.shape[2] in (3, 4)):
        hint = "channels come last in an array, first in a tensor" if pixels.ndim == 3 else "give several as a list"
        raise ValueError(f"an image must be {WORDS}, got {tuple(value.shape)}: {hint}")
    return to_uint8(pixels)


def channels_last(value: torch.Tensor) -> np.ndarray:
    """Return a tensor (..., channels, rows, columns) as an array (..., rows, columns, channels)."""
    value = value.detach().cpu()
    value = value.float() if value.is_floating_point() else value
    return (value.movedim(-3, -1) if value.dim() > 2 else value).numpy()


def to_uint8(pixels: np.ndarray) -> np.ndarray:
    """Return pixels as uint8, from integers up to 255 or floats up to 1."""
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    white = 1 if pixels.dtype.kind in "fb" else 255
    if pixels.dtype.kind not in "fiub" or not (pixels.min() >= 0 and pixels.max() <= white):
        value_range = f" from {pixels.min():g} to {pixels.max():g}" if pixels.dtype.kind in "fiu" else ""
        raise ValueError(f"pixels must be bytes, or floats from 0 to 1 (pixels / 255), got {pixels.dtype}{value_range}")
    return np.rint(pixels.astype(np.float64) * (255 // white)).astype(np.uint8)
