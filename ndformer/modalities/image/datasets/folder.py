"""Any images in class folders: data_root/train/CLASS/*.jpg, and val/ and test/ like it."""

from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.formats.files import ENDINGS, open_image


class LabelledImages(Dataset):
    """Records are (path, label)."""

    def read(self, record: Any) -> Sample:
        path, label = record
        return dict(image=open_image(path), label=label, path=str(path))


@DATASETS.register_module()
class ImageFolder(ClassFolders):
    """`mode` is RGB, or L for grey."""

    endings, kind = ENDINGS, "image"

    def __init__(self, *args: Any, mode: str = "RGB", **rest: Any) -> None:
        self.mode = mode
        super().__init__(*args, **rest)

    def open(self, path: Path) -> Sample:
        return dict(image=open_image(path, self.mode))
