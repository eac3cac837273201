"""Labeled images in one folder for each class: data_root/train/CLASS/*.jpg, and val/ and test/ alike."""

from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.background import common_background
from ndformer.modalities.image.datasets.sizes import SizedImages
from ndformer.modalities.image.formats.files import ENDINGS, open_image
from ndformer.moved import old_names


class LabeledImages(SizedImages):
    """Base class of datasets whose records are (path, label)."""

    def read(self, record: Any) -> Sample:
        path, label = record
        return dict(image=open_image(path), label=label, path=str(path))


@DATASETS.register_module()
class ImageFolder(SizedImages, ClassFolders):
    """A dataset of images in one folder for each class; `mode` is RGB, or L for gray."""

    endings, kind = ENDINGS, "image"
    reading_options = ("mode",)

    def __init__(self, *args: Any, mode: str = "RGB", **kwargs: Any) -> None:
        self.mode = mode
        super().__init__(*args, **kwargs)

    def open(self, path: Path) -> Sample:
        return dict(image=open_image(path, self.mode))

    def likeness(self) -> list[str]:
        return common_background(self)


__getattr__ = old_names(__name__, {"LabelledImages": "LabeledImages"})
