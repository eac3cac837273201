"""Image files, with errors that say what to do."""

from pathlib import Path

from PIL import Image

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff", ".gif")


def open_image(path: Path, mode: str = "RGB") -> Image.Image:
    try:
        with foreign.image(path) as image:
            return image.convert(mode)  # reads all of it: a truncated file fails here
    except FileNotFoundError:
        raise DataError(f"{path} is missing, though the dataset lists it: get the dataset again") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image ({error}): replace it or take it away") from None
