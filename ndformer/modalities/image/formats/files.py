"""Image files and folders of them, with errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from ndformer.framework.data.folders import files_in, labelled
from ndformer.framework.errors import DataError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff", ".gif")


def open_image(path: Path, mode: str = "RGB") -> Image.Image:
    try:
        with Image.open(path) as image:
            return image.convert(mode)  # reads all of it: a truncated file fails here
    except FileNotFoundError:
        raise DataError(f"{path} is missing, though the dataset lists it: get the dataset again") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image ({error}): replace it or take it away") from None


def images_in(folder: Path) -> list[str]:
    """The paths of the images in a folder and those below it, from `folder` on, sorted."""
    return files_in(folder, ENDINGS)


def labelled_images(folder: Path, classes: list[str], inside: str = "") -> tuple[list[tuple[Path, int]], np.ndarray]:
    """(path, label) of the images in folder/CLASS[/inside], class by class, and the labels again as an array."""
    return labelled(folder, classes, ENDINGS, "image", inside)
