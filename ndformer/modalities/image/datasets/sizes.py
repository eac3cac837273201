"""Sizes of the images of a dataset after KeepAspect, from their headers."""

from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.foreign import image_size
from ndformer.modalities.image.transforms.aspect import KeepAspect


class SizedImages(Dataset):
    """Base class of datasets of image files whose sizes `batch_tokens` reads from the headers."""

    def image_path(self, record: Any) -> Path:
        """Return the file of a record, the first value of (path, label)."""
        return record[0]

    def input_size(self, i: int) -> tuple[int, int] | None:
        """Return the largest height and width of a sample, if KeepAspect comes first and no `size` follows it."""
        first, *later = self.transforms or [None]
        if not isinstance(first, KeepAspect) or any("size" in vars(step) for step in later):
            return None
        path = self.image_path(self.records[i])
        width, height = image_size(path)
        return first.largest_size(height, width, path)
