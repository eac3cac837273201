"""Brightness of the background of images: a model of white digits on black warns about a photo of ink on paper."""

import numpy as np
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import readable_samples

MAX_CHECKED = 16  # images, spread over the dataset
SIDE, BORDER = 32, 2  # an image is reduced to this many pixels, and those near its border are its background
DARK, BRIGHT = 1 / 3, 2 / 3  # limits of the mean of the border, of 1


def background(image: Image.Image) -> str:
    """Describe the background of an image, of which its border is taken as a sample."""
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX).convert("L")
    gray = np.asarray(small, np.float32) / 255  # (32, 32)
    inside = slice(BORDER, -BORDER)
    mean = (gray.sum() - gray[inside, inside].sum()) / (gray.size - gray[inside, inside].size)
    return f"a {'dark' if mean < DARK else 'bright' if mean > BRIGHT else 'medium'} background"


def common_background(dataset: Dataset) -> list[str]:
    """Return the background that all checked training images have, or an empty list if they differ."""
    kinds: set[str] = set()
    for sample in readable_samples(dataset, MAX_CHECKED) if dataset.split == "train" else ():
        kinds.add(background(sample["image"]))
        if len(kinds) > 1:
            return []
    return [*kinds]
