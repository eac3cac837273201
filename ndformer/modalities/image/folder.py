"""Any images in class folders: data_root/train/CLASS/*.jpg, and val/ and test/ like it.

Without test/, val/ is the test set, read once at the end, and a share of train is held out for validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data import DataError, Dataset, Sample, Transform
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.files import class_folders, labelled_images, missing, open_image


@DATASETS.register_module()
class ImageFolder(Dataset):
    """`mode` is RGB, or L for grey."""

    def __init__(
        self,
        data_root: str | Path,
        split: str = "train",
        transforms: Sequence[dict[str, Any] | Transform] = (),
        holdout: float = 0.1,
        val_is_test: bool = False,
        seed: int = 0,
        per_class: int | None = None,
        mode: str = "RGB",
    ) -> None:
        self.mode = mode
        found = {name: Path(data_root) / name for name in ("train", "val", "test") if (Path(data_root) / name).is_dir()}
        if "test" not in found and "val" in found:
            found["test"] = found.pop("val")
        self.folders, self.splits = found, tuple(found)
        super().__init__(data_root, split, transforms, holdout, val_is_test, seed, per_class)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        for name in ("train", split):
            if name not in self.folders:
                what = (
                    "a folder per class, with its images in it," if name == "train" else "the same classes as in train"
                )
                raise missing(self.data_root / name, what, "or give the folder above it as data_root")
        home = self.folders[split]
        self.classes = class_folders(self.folders["train"])
        if not self.classes:
            raise DataError(f"{self.folders['train']} holds no class folder: put each class's images in one")
        strange = set(class_folders(home)) - set(self.classes)
        if strange:
            raise DataError(f"{home / min(strange)} is no class of {self.folders['train']}: rename it or take it away")
        return labelled_images(home, self.classes)

    def read(self, record: Any) -> Sample:
        path, label = record
        return dict(image=open_image(path, self.mode), label=label, path=str(path))
