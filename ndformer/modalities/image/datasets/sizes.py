"""Sizes of the images of a dataset after KeepAspect, from their headers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.foreign import image_size
from ndformer.modalities.image.transforms.aspect import KeepAspect

SIZES = {"size", "longest"}  # attributes of transforms that set the size of an image


def preserve_size(transforms: Sequence[Any]) -> bool:
    """Return whether no transform sets the size of an image, nor one within a transform such as EachFrame."""
    return all(
        SIZES.isdisjoint(vars(transform)) and preserve_size(vars(transform).get("transforms", ()))
        for transform in transforms
    )


class SizedImages(Dataset):
    """Base class of datasets of image files whose sizes `batch_tokens` reads from the headers."""

    def image_path(self, record: Any) -> Path:
        """Return the file of a record, the first value of (path, label)."""
        return record[0]

    def input_size(self, i: int) -> tuple[int, int] | None:
        """Return the largest height and width of a sample, if KeepAspect comes first and the size stays."""
        first, *later = self.transforms or [None]
        if not isinstance(first, KeepAspect) or not preserve_size(later):
            return None
        path = self.image_path(self.records[i])
        width, height = image_size(path)
        return first.largest_size(height, width, path)
