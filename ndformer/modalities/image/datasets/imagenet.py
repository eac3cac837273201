"""ImageNet-1K in the layout of ILSVRC and Kaggle, or in one folder for each class.

    data_root/[ILSVRC/]Data/CLS-LOC/train/n01440764/*.JPEG, .../val/ILSVRC2012_val_00000001.JPEG
    data_root/LOC_synset_mapping.txt, LOC_val_solution.csv                      as Kaggle has it, or
    data_root/imagenet_class_index.json, ILSVRC2012_val_labels.json             number -> [synset, name], file -> synset
        data_root/train/n01440764/*.JPEG, data_root/val/n01440764/*.JPEG            or without these lists

The official validation images are the test set; 1 % of train is held out for validation.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import class_folders, labeled, missing
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Rate
from ndformer.modalities.image.datasets.folder import LabeledImages
from ndformer.modalities.image.formats.files import ENDINGS

MAPPING, INDEX = "LOC_synset_mapping.txt", "imagenet_class_index.json"
SOURCE = "kaggle.com/c/imagenet-object-localization-challenge, or image-net.org"


def image_roots(root: Path) -> list[Path]:
    """Return the folders in which train/ and val/ may lie."""
    return [root / "ILSVRC/Data/CLS-LOC", root / "Data/CLS-LOC", root]


def read_classes(root: Path, train: Path, fallback: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the synsets in the order of their labels, and their names.

    They come from a list in `root`, else from the folders of `train`, else from `fallback`.
    """
    mapping, index = root / MAPPING, root / INDEX
    if mapping.is_file():
        pairs = [line.split(maxsplit=1) for line in foreign.lines(mapping) if line.strip()]
    elif index.is_file():
        pairs = [pair for _, pair in sorted(_object(index).items(), key=lambda item: int(item[0]))]
    else:
        pairs = [(synset, synset) for synset in (class_folders(train) if train.is_dir() else fallback)]
    if not all(isinstance(pair, (list, tuple)) and [type(word) for word in pair] == [str, str] for pair in pairs):
        raise DataError(f"{mapping if mapping.is_file() else index} has a class without synset or name: get it again")
    if not pairs:
        raise DataError(f"{train} has no class folders. ImageNet has one for each synset, such as n01440764")
    return [synset for synset, _ in pairs], [name.split(",")[0].replace("_", " ") for _, name in pairs]


@DATASETS.register_module()
class ImageNet(LabeledImages):
    """ImageNet-1K; its validation images are the test set, and 1 % of train is held out for validation."""

    test_is_val = True

    def __init__(self, *args: Any, holdout: Rate = 0.01, **kwargs: Any) -> None:
        super().__init__(*args, holdout=holdout, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        layouts = image_roots(self.data_root)
        folder_name = {"train": "train", "test": "val"}[split]
        images = next(
            (home for name in ("train", folder_name) for home in layouts if (home / name).is_dir()), layouts[0]
        )
        folder = images / folder_name
        has_list = self.model_classes or any((self.data_root / name).is_file() for name in (MAPPING, INDEX))
        for name in (folder.name,) if split == "test" and has_list else ("train", folder.name):
            if not (images / name).is_dir():
                raise missing(images / name, f"ImageNet-1K's {name} images", SOURCE)
        self.synsets, self.classes = read_classes(self.data_root, images / "train", self.model_classes)
        if split == "train" or class_folders(folder):
            return labeled(folder, self.synsets, ENDINGS, "image", every=split == "train")
        answers = self._answers()
        numbers = {synset: i for i, synset in enumerate(self.synsets)}
        unknown = [(name, synset) for name, synset in answers.items() if synset not in numbers]
        if unknown:
            raise DataError(f"the label of {unknown[0][0]} is {unknown[0][1]}, which is no class of this ImageNet")
        records = [(foreign.inside(folder, name), numbers[synset]) for name, synset in sorted(answers.items())]
        return records, np.array([label for _, label in records], np.int64)

    def _answers(self) -> dict[str, str]:
        """Return the synset of each validation image, by file name."""
        solution, labels = self.data_root / "LOC_val_solution.csv", self.data_root / "ILSVRC2012_val_labels.json"
        if solution.is_file():
            try:
                rows = list(csv.DictReader(foreign.lines(solution)))
                return {row["ImageId"] + ".JPEG": row["PredictionString"].split()[0] for row in rows}
            except (KeyError, TypeError, AttributeError, IndexError, csv.Error) as error:
                raise DataError(
                    f"{solution} must be a table of ImageId and PredictionString ({error!r}): get it again"
                ) from None
        if labels.is_file():
            return {name: str(synset) for name, synset in _object(labels).items()}
        raise missing(solution, "the labels of the validation images (or ILSVRC2012_val_labels.json),", SOURCE)


def _object(path: Path) -> dict[str, Any]:
    content = foreign.json_or_error(path, "get it again")
    if not isinstance(content, dict):
        raise DataError(f"{path} must be a JSON object: get it again")
    return content
