"""ImageNet-V2 and ImageNet-R: further test sets for models trained on ImageNet-1K.

data_root/[imagenetv2-matched-frequency-format-val/]0/*.jpeg ... 999/*.jpeg       V2: folders are labels
data_root/[imagenet-r/]n01443537/*.jpg                                            R: synsets, 200 of the 1000
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import class_folders, labeled, missing
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.folder import LabeledImages
from ndformer.modalities.image.datasets.imagenet import INDEX, MAPPING, image_roots, read_classes
from ndformer.modalities.image.formats.files import ENDINGS

CLASSES = 1000
SYNSET = re.compile(r"n\d{8}")


class NewImages(LabeledImages):
    """Base class of test sets with class folders; `unpacked` is a glob pattern for the folder in the archive."""

    splits = ("test",)
    unpacked: str
    source: str

    def home(self, split: str) -> Path:
        """Return the folder that has the class folders."""
        if split != "test":
            raise DataError(
                f"{type(self).__name__} is a test set and has no {split} images: train on ImageNet, and test with "
                f"test_dataloader.dataset.type={type(self).__name__}"
            )
        inner = sorted(path for path in self.data_root.glob(self.unpacked) if path.is_dir())
        if len(inner) > 1:
            raise DataError(
                f"{self.data_root} has {', '.join(path.name for path in inner)}: give one of them as data_root"
            )
        home = inner[0] if inner else self.data_root
        if not home.is_dir() or not class_folders(home):
            raise missing(home, "a folder of images per class", self.source)
        return home


@DATASETS.register_module()
class ImageNetV2(NewImages):
    """ImageNet-V2: ten new images of each class. Folders 0 to 999 are labels, in the order of sorted synsets."""

    unpacked, source = "imagenetv2-*", "github.com/modestyachts/ImageNetV2"

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        home = self.home(split)
        count = len(self.model_classes) or CLASSES
        numbers = [str(label) for label in range(count)]
        strange = sorted(set(class_folders(home)) - set(numbers))
        if strange:
            raise DataError(f"{home / strange[0]} is no class: folders of ImageNet-V2 are numbers, 0 to {count - 1}")
        self.classes = list(self.model_classes) or numbers
        return labeled(home, numbers, ENDINGS, "image", every=False)


@DATASETS.register_module()
class ImageNetR(NewImages):
    """ImageNet-R: drawings, sculptures and other renditions of 200 classes; predictions are limited to these classes.

    `imagenet` is the folder of ImageNet-1K, which gives the order of the 1000 synsets. It is not needed where data_root
    has LOC_synset_mapping.txt or imagenet_class_index.json, or where the checkpoint names its classes by synsets.
    """

    unpacked, source = "imagenet-r", "github.com/hendrycks/imagenet-r"

    def __init__(self, *args: Any, imagenet: Path | str | None = None, **kwargs: Any) -> None:
        self.imagenet = None if imagenet is None else Path(imagenet)
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        home = self.home(split)
        synsets, names = self._synsets()
        folders = class_folders(home)
        strange = sorted(set(folders) - set(synsets))
        if strange:
            raise DataError(
                f"{home / strange[0]} is no class of ImageNet-1K{nearest(strange[0], synsets)} Folders of ImageNet-R "
                "are synsets, n01443537 and so on"
            )
        self.classes = names if names != synsets else list(self.model_classes) or names
        place = {synset: label for label, synset in enumerate(synsets)}
        self.among = sorted(place[synset] for synset in folders)
        return labeled(home, synsets, ENDINGS, "image", every=False)

    def _synsets(self) -> tuple[list[str], list[str]]:
        for root in (self.imagenet, self.data_root):
            if root is not None and any((root / name).is_file() for name in (MAPPING, INDEX)):
                return read_classes(root, root / "train", ())
        if self.imagenet is not None:
            trains = [home / "train" for home in image_roots(self.imagenet)]
            train = next((path for path in trains if path.is_dir()), None)
            if train is None:
                raise missing(trains[-1], f"ImageNet-1K's train images (or its {MAPPING} beside them)", "image-net.org")
            return read_classes(self.imagenet, train, ())
        if self.model_classes and all(SYNSET.fullmatch(name) for name in self.model_classes):
            return list(self.model_classes), list(self.model_classes)
        raise DataError(
            f"cannot match the folders of {self.data_root} to ImageNet-1K's classes: put {MAPPING} there, or "
            "give dataset.imagenet, the folder of ImageNet-1K"
        )

    def read(self, record: Any) -> Sample:
        return super().read(record) | dict(among=self.among)
