"""What a file of an image holds, in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ndformer.modalities.image.formats.files import ENDINGS, open_image

__all__ = ["ENDINGS", "describe"]


def describe(path: Path, rows: int = 5) -> dict[str, Any]:
    """Plain values by name; `odd` is a list of sentences, `first` the first pixels."""
    pixels = np.asarray(open_image(path))  # (H, W, 3); a damaged one ends here
    with Image.open(path) as image:
        kind, mode, frames = str(image.format), image.mode, getattr(image, "n_frames", 1)
        turned = image.getexif().get(274, 1)
    height, width = pixels.shape[:2]
    found: dict[str, Any] = dict(format=kind, bytes=path.stat().st_size, height=height, width=width, mode=mode)
    found |= dict(mean=[round(v, 1) for v in pixels.mean((0, 1)).tolist()])
    found |= dict(deviation=[round(v, 1) for v in pixels.std((0, 1)).tolist()])
    odd = []
    if frames > 1:
        odd.append(f"it has {frames} frames, of which the first is read")
    if turned != 1:
        odd.append(f"its EXIF says that it was taken sideways (orientation {turned}): it is read as it is stored")
    if "A" in mode or mode == "P":
        odd.append(f"its mode {mode} may be transparent in places, which is not read")
    if pixels.min() == pixels.max():
        odd.append(f"all pixels are {pixels.min()}")
    first = [dict(zip("rgb", pixel)) for pixel in pixels.reshape(-1, 3)[:rows].tolist()]
    return found | dict(odd=odd, first=first)
