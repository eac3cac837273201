"""What a segmenter that never looks at an image gets: a class for all pixels, or one for each place."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from PIL import Image

from ndformer.modalities.image.datasets.masks import MaskFolder
from ndformer.modalities.image.transforms.boxes import IGNORED

CELLS = 16  # places along a side


def counts(train: MaskFolder) -> np.ndarray:
    """(CELLS, CELLS, C) in how many images a class is at a place, images stretched to squares."""
    total = np.zeros((CELLS, CELLS, len(train.classes)), np.int64)
    for record in train.records:
        small = np.asarray(
            Image.fromarray(train.read(record)["truth"]).resize((CELLS, CELLS), Image.Resampling.NEAREST)
        )
        rows, columns = np.nonzero(small != IGNORED)
        total[rows, columns, small[rows, columns]] += 1
    return total


def mean_iou(test: MaskFolder, answer: np.ndarray) -> float:
    """Of the same (CELLS, CELLS) classes for every image, over all pixels whose class is known."""
    classes = len(test.classes)
    pairs = np.zeros((classes, classes))  # truth, answer
    for record in test.records:
        truth = test.read(record)["truth"]
        said = np.asarray(Image.fromarray(answer).resize(truth.shape[::-1], Image.Resampling.NEAREST))
        known = truth != IGNORED
        np.add.at(pairs, (truth[known], said[known]), 1)
    union = pairs.sum(0) + pairs.sum(1) - pairs.diagonal()
    return float((pairs.diagonal()[union > 0] / union[union > 0]).mean())


def baselines(train: MaskFolder, test: MaskFolder) -> Iterable[tuple[str, float]]:
    total = counts(train)
    common = np.full((CELLS, CELLS), total.sum((0, 1)).argmax(), np.uint8)
    yield "most common class, mIoU", mean_iou(test, common)
    yield "most common class of a place, mIoU", mean_iou(test, total.argmax(-1).astype(np.uint8))
