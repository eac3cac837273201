"""Semantic segmentation datasets of images with png masks: ADE20K, or your own folder.

        data_root/images/training/*.jpg   data_root/annotations/training/*.png     validation and test alike
        data_root/images/train/*.jpg      data_root/masks/train/*.png              val and test alike
        data_root/classes.txt             a name per line, in the order of class numbers; or ADE20K's objectInfo150.txt

A mask is gray or has a palette. Its numbers are the classes, and 255 means unlabeled. With `zero_is_nothing`, 0 means
unlabeled too and classes count from 1, as in ADE20K.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import files_in, missing, warn_skipped
from ndformer.framework.errors import DataError, check_labels
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.sizes import SizedImages
from ndformer.modalities.image.formats.files import ENDINGS, open_image
from ndformer.modalities.image.transforms.boxes import IGNORED, framed

GRAY_STEPS = {2: 85, 4: 17}  # gray levels of 8 bits from one number to the next, by the bits of a pixel
NAMES = dict(train=("training", "train"), val=("validation", "val"), test=("test", "testing"))


@DATASETS.register_module()
class MaskFolder(SizedImages):
    """A dataset of images with one png mask each, in parallel folders."""

    answer = "Pixels"

    def __init__(self, *args: Any, zero_is_nothing: bool = False, **kwargs: Any) -> None:
        self.zero_is_nothing = zero_is_nothing
        super().__init__(*args, **kwargs)

    def on_disk(self) -> dict[str, tuple[Path, Path]]:
        return {split: homes for split in NAMES if (homes := _homes(self.data_root, split)) is not None}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        if split not in self.disk_splits:
            raise missing(self.data_root / "images" / split, "images", f"and annotations/{split} or masks/{split}")
        self.classes = _classes(self.data_root, self.model_classes)
        images, masks = self.disk_splits[split]
        counts: Counter[str] = Counter()
        records = []
        for name in files_in(images, ENDINGS, counts):
            mask = (masks / name).with_suffix(".png")
            if not mask.is_file():
                raise DataError(f"{mask} is missing for {images / name}: give each image a png mask of the same name")
            records.append((images / name, mask))
        warn_skipped(counts, images, "image", ENDINGS)
        return records, np.zeros(len(records), np.int64)  # one label for all, so a hold-out takes every tenth image

    def read(self, record: Any) -> Sample:
        path, mask_path = record
        truth = self._mask(mask_path)
        image = open_image(path, size=(truth.shape[1], truth.shape[0]))
        if truth.shape != (image.height, image.width):
            raise DataError(
                f"{mask_path} has {truth.shape[0]} x {truth.shape[1]} pixels, but {path} has {image.height} x "
                f"{image.width}: give both the same size"
            )
        return framed(dict(image=image, path=str(path), mask=Image.fromarray(truth), truth=truth))

    def _mask(self, path: Path) -> np.ndarray:
        """Return a mask (H, W) of uint8 classes from 0 on, 255 where unlabeled."""
        numbers = _numbers(path)
        if self.zero_is_nothing:
            numbers = np.where((numbers == 0) | (numbers == IGNORED), IGNORED, numbers - 1)
        if len(self.classes) > IGNORED:
            raise DataError(
                f"expected at most {IGNORED} classes, since masks have 8 bits in memory, got {len(self.classes)}. Join "
                "some of them"
            )
        labels = numbers[numbers != IGNORED]
        check_labels(labels, len(self.classes), path, "name it in classes.txt, or write 255 for unlabeled pixels")
        return numbers.astype(np.uint8)


def _homes(root: Path, split: str) -> tuple[Path, Path] | None:
    for name in NAMES[split]:
        for masks in ("annotations", "masks"):
            if (root / "images" / name).is_dir() and (root / masks / name).is_dir():
                return root / "images" / name, root / masks / name
    return None


def _classes(root: Path, fallback: list[str]) -> list[str]:
    official = root / "objectInfo150.txt"
    if official.is_file():  # a table with a header; its last column has the names
        lines = foreign.lines(official)[1:]
        return [line.split("\t")[-1].split(",")[0].strip() for line in lines if line.strip()]
    if not (root / "classes.txt").is_file():
        if fallback:
            return fallback
        raise missing(root / "classes.txt", "the classes' names, one per line", "objectInfo150.txt does too")
    return [line for line in foreign.lines(root / "classes.txt") if line.strip()]


def _numbers(path: Path) -> np.ndarray:
    """Return the numbers (H, W) of a mask file as int64."""
    with foreign.image(path) as mask:
        if mask.mode not in ("L", "P", "I", "I;16", "1"):
            raise DataError(
                f"{path}: a mask must be gray or have a palette of class numbers, got an image in mode {mask.mode}"
            )
        numbers = np.asarray(mask).astype(np.int64)
    return numbers // GRAY_STEPS.get(_gray_bits(path), 1)


def _gray_bits(path: Path) -> int:
    """Return the bits of a pixel of a gray PNG file; 0 with a palette. Pillow multiplies grays of 2 and 4 bits."""
    with foreign.opened(path) as file:
        head = file.read(26)
    return head[24] if len(head) == 26 and head[25] == 0 else 0
