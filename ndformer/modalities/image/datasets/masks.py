"""Images with a class for every pixel: png masks beside them, ADE20K or a folder of one's own.

    data_root/images/training/*.jpg   data_root/annotations/training/*.png     validation and test like it
    data_root/images/train/*.jpg      data_root/masks/train/*.png              val and test like it
    data_root/classes.txt             a name per line, in the order of numbers; ADE20K's objectInfo150.txt does too

A mask is grey or has a palette: its numbers are the classes, 255 is what nobody knows. With `zero_is_nothing`, 0 is
that too and classes count from 1, as in ADE20K.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.folders import files_in, missing, warn_skipped
from ndformer.framework.errors import DataError, check_labels
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.formats.files import ENDINGS, open_image
from ndformer.modalities.image.transforms.boxes import IGNORED, framed

NAMES = dict(train=("training", "train"), val=("validation", "val"), test=("test", "testing"))


@DATASETS.register_module()
class MaskFolder(Dataset):
    answer = "Pixels"

    def __init__(self, *args: Any, zero_is_nothing: bool = False, **rest: Any) -> None:
        self.zero_is_nothing = zero_is_nothing
        super().__init__(*args, **rest)

    def on_disk(self) -> dict[str, tuple[Path, Path]]:
        return {split: homes for split in NAMES if (homes := _homes(self.data_root, split)) is not None}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        if split not in self.disk_splits:
            raise missing(self.data_root / "images" / split, "images", f"and annotations/{split} or masks/{split}")
        self.classes = _classes(self.data_root, self.model_classes)
        images, masks = self.disk_splits[split]
        others: Counter[str] = Counter()
        records = []
        for name in files_in(images, ENDINGS, others):
            mask = (masks / name).with_suffix(".png")
            if not mask.is_file():
                raise DataError(f"{mask} is missing beside {images / name}: each image has a mask of its name, a png")
            records.append((images / name, mask))
        warn_skipped(others, images, "image", ENDINGS)
        return records, np.zeros(len(records), np.int64)  # a hold-out takes every tenth image

    def read(self, record: Any) -> Sample:
        path, mask_path = record
        truth = self._mask(mask_path)
        image = open_image(path, size=(truth.shape[1], truth.shape[0]))
        if truth.shape != (image.height, image.width):
            raise DataError(
                f"{mask_path} has {truth.shape[0]} x {truth.shape[1]} pixels, but {path} {image.height} x "
                f"{image.width}: give both the same"
            )
        return framed(dict(image=image, path=str(path), mask=Image.fromarray(truth), truth=truth))

    def _mask(self, path: Path) -> np.ndarray:
        """(H, W) uint8 classes from 0 on, 255 where nobody knows."""
        numbers = _numbers(path)
        if self.zero_is_nothing:
            numbers = np.where((numbers == 0) | (numbers == IGNORED), IGNORED, numbers - 1)
        known = numbers[numbers != IGNORED]
        check_labels(known, len(self.classes), path, "name it in classes.txt, or write 255 where nobody knows")
        return numbers.astype(np.uint8)


def _homes(root: Path, split: str) -> tuple[Path, Path] | None:
    for name in NAMES[split]:
        for masks in ("annotations", "masks"):
            if (root / "images" / name).is_dir() and (root / masks / name).is_dir():
                return root / "images" / name, root / masks / name
    return None


def _classes(root: Path, known: list[str]) -> list[str]:
    official = root / "objectInfo150.txt"
    if official.is_file():  # a table whose last column holds the names, below a head
        lines = foreign.lines(official)[1:]
        return [line.split("\t")[-1].split(",")[0].strip() for line in lines if line.strip()]
    if not (root / "classes.txt").is_file():
        if known:
            return known
        raise missing(root / "classes.txt", "the classes' names, one per line", "objectInfo150.txt does too")
    return [line for line in foreign.lines(root / "classes.txt") if line.strip()]


def _numbers(path: Path) -> np.ndarray:
    """(H, W) int64, as they are in the file."""
    with foreign.image(path) as mask:
        if mask.mode not in ("L", "P", "I", "I;16", "1"):
            raise DataError(
                f"{path} is a picture of {mask.mode} colours, a mask is grey or has a palette: write numbers of classes"
            )
        return np.asarray(mask).astype(np.int64)
