"""Brightness of the background of images: a model of white digits on black warns about a photo of ink on paper."""

import warnings

import numpy as np
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import DataError

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
    count = len(dataset) if dataset.split == "train" else 0
    for i in np.unique(np.linspace(0, count - 1, min(MAX_CHECKED, count)).astype(int)).tolist():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # reading the sample in training warns again
                kinds.add(background(dataset.read(dataset.records[i])["image"]))
        except DataError:  # a bad sample is reported by the loader
            continue
        if len(kinds) > 1:
            return []
    return [*kinds]
