"""Tiny-ImageNet as published: 200 classes of 64 x 64 pixels. Its test images have no labels, so val is the test set.

data_root/[tiny-imagenet-200/]   wnids.txt, words.txt, train/WNID/images/*.JPEG, val/images/*.JPEG,
                                 val/val_annotations.txt: file, WNID and a box per line
"""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import labeled, missing
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.folder import LabeledImages
from ndformer.modalities.image.formats.files import ENDINGS


@DATASETS.register_module()
class TinyImageNet(LabeledImages):
    """Tiny-ImageNet: 200 classes of 64 x 64 pixels; its validation images are the test set."""

    test_is_val = True

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        inner = self.data_root / "tiny-imagenet-200"
        root = inner if inner.is_dir() else self.data_root
        for path in (root / "wnids.txt", root / "train", root / "val" / "val_annotations.txt"):
            if not path.exists():
                raise missing(path, "a part of Tiny-ImageNet", "cs231n.stanford.edu/tiny-imagenet-200.zip, unpacked")
        synsets = foreign.words(root / "wnids.txt")
        words = root / "words.txt"
        lines = foreign.lines(words) if words.is_file() else []
        names = dict(line.split("\t", 1) for line in lines if "\t" in line)
        self.classes = [names.get(synset, synset).split(",")[0].strip() for synset in synsets]
        if split == "train":
            return labeled(root / "train", synsets, ENDINGS, "image", "images")
        return self._read_annotations(root / "val", {synset: i for i, synset in enumerate(synsets)})

    def _read_annotations(self, folder: Path, numbers: dict[str, int]) -> tuple[list[tuple[Path, int]], np.ndarray]:
        lists = folder / "val_annotations.txt"
        records = []
        for line in filter(str.strip, foreign.lines(lists)):
            name, synset = line.split("\t")[:2]
            if synset not in numbers:
                raise DataError(f"{lists} gives {name} the class {synset}, which wnids.txt does not list: get it again")
            records.append((foreign.inside(folder / "images", name), numbers[synset]))
        return records, np.array([label for _, label in records], np.int64)
