"""Description of an image file in numbers."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import ImageStat

from ndformer.framework import foreign
from ndformer.framework.data.describe import Describer, Description, true_sentences
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.image.formats.files import ENDINGS


@DESCRIBERS.register_module()
class ImageFile(Describer):
    endings = ENDINGS

    def describe(self, path: Path, rows: int) -> Description:
        image = foreign.picture(path)  # raises for a damaged file
        pixels = np.asarray(image)  # (H, W, 3)
        with foreign.image(path) as head:
            kind, mode, several = str(head.format), head.mode, getattr(head, "is_animated", False)
            stored, clear = head.size, "transparency" in head.info or "A" in mode
        height, width = pixels.shape[:2]
        facts: dict[str, Any] = dict(format=kind, height=height, width=width, mode=mode)
        about = ImageStat.Stat(image)
        facts |= dict(mean=[round(v, 1) for v in about.mean], deviation=[round(v, 1) for v in about.stddev])
        odd = {
            "it has several frames, of which the first is read": several,
            "it was taken sideways, as its EXIF says: it is read upright": stored != image.size,
            "it may be transparent in places, where it is read as on white paper": clear,
            f"all pixels are {pixels.min()}": pixels.min() == pixels.max(),
        }
        first = [dict(zip("rgb", pixel)) for pixel in pixels.reshape(-1, 3)[:rows].tolist()]
        return facts, true_sentences(odd), first
