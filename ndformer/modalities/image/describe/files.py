"""What a file of an image holds, in numbers."""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.describe import Describer, Told, that_hold
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.image.formats.files import ENDINGS, open_image


@DESCRIBERS.register_module()
class ImageFile(Describer):
    endings = ENDINGS

    def tell(self, path: Path, rows: int) -> Told:
        pixels = np.asarray(open_image(path))  # (H, W, 3); a damaged one ends here
        with foreign.image(path) as image:
            kind, mode, frames = str(image.format), image.mode, getattr(image, "n_frames", 1)
            turned = image.getexif().get(274, 1)
        height, width = pixels.shape[:2]
        found: dict[str, Any] = dict(format=kind, height=height, width=width, mode=mode)
        found |= dict(mean=[round(v, 1) for v in pixels.mean((0, 1)).tolist()])
        found |= dict(deviation=[round(v, 1) for v in pixels.std((0, 1)).tolist()])
        sideways = f"its EXIF says that it was taken sideways (orientation {turned}): it is read as it is stored"
        odd = {
            f"it has {frames} frames, of which the first is read": frames > 1,
            sideways: turned != 1,
            f"its mode {mode} may be transparent in places, which is not read": "A" in mode or mode == "P",
            f"all pixels are {pixels.min()}": pixels.min() == pixels.max(),
        }
        first = [dict(zip("rgb", pixel)) for pixel in pixels.reshape(-1, 3)[:rows].tolist()]
        return found, that_hold(odd), first
