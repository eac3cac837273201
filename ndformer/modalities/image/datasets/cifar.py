"""CIFAR-10 and CIFAR-100 in the "python version" of their authors: pickled batches of 32 x 32 images.

data_root/[cifar-10-batches-py/]   data_batch_1 ... data_batch_5, test_batch, batches.meta
data_root/[cifar-100-python/]      train, test, meta
"""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, check_labels
from ndformer.framework.registry import DATASETS


def unpickle(path: Path) -> dict[str, Any]:
    try:
        content = foreign.plain_pickle(path)
        return {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
    except DataError:
        raise
    except Exception as error:  # a damaged or hostile pickle can raise anything
        reason = foreign.printable(" ".join(str(error)[:200].split()))
        raise DataError(f"{path} is not a CIFAR batch ({reason}): get the dataset again") from None


def class_names(path: Path, names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, (str, bytes)) for name in names):
        raise DataError(f"{path}: class names must be texts. Get the dataset again")
    return [name.decode(errors="replace") if isinstance(name, bytes) else name for name in names]


def are_numbers(labels: list[Any]) -> bool:
    return all(type(label) is int and abs(label) < 2**63 for label in labels)


class CIFAR(Dataset):
    folder: ClassVar[str]
    files: ClassVar[dict[str, list[str]]]
    meta: ClassVar[tuple[str, str]]  # the file of class names, and the key of the names in it
    key: ClassVar[str]  # of the labels in a batch
    count: ClassVar[int]

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        root = self.data_root / self.folder if (self.data_root / self.folder).is_dir() else self.data_root
        source = f"{self.folder.replace('-batches-py', '-python')}.tar.gz from www.cs.toronto.edu/~kriz/cifar.html"
        for name in [*self.files[split], self.meta[0]]:
            if not (root / name).is_file():
                raise missing(root / name, f"the python version of {type(self).__name__}, unpacked,", source)
        self.classes = self._names(root / self.meta[0])
        batches = [self._batch(root / name) for name in self.files[split]]
        self.images = np.concatenate([images for images, _ in batches])  # (N, 3, 32, 32) uint8
        labels = np.concatenate([labels for _, labels in batches])
        paths = [
            f"{root / name}[{i}]" for name, (images, _) in zip(self.files[split], batches) for i in range(len(images))
        ]
        return list(zip(range(len(labels)), labels.tolist(), paths)), labels

    def _names(self, path: Path) -> list[str]:
        names = unpickle(path).get(self.meta[1])
        if not isinstance(names, list) or len(names) != self.count:
            raise DataError(f"{path} must name {self.count} classes under '{self.meta[1]}': get the dataset again")
        return class_names(path, names)

    def _batch(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        batch = unpickle(path)
        images, labels = batch.get("data"), batch.get(self.key)
        if (
            not isinstance(images, np.ndarray)
            or not isinstance(labels, list)
            or images.dtype != np.uint8
            or images.shape != (len(labels), 3072)
        ):
            raise DataError(
                f"{path} is not a CIFAR batch (it must have N x 3072 bytes and N '{self.key}'): get the dataset again"
            )
        if not are_numbers(labels):
            raise DataError(f"{path}: labels must be class numbers. Get the dataset again")
        numbers = np.array(labels, np.int64)
        check_labels(numbers, self.count, path, "get it again")
        return images.reshape(-1, 3, 32, 32), numbers

    def identity(self, i: int) -> Any:
        return self.records[i], self.images[self.records[i][0]]

    def read(self, record: Any) -> Sample:
        i, label, path = record
        return dict(image=Image.fromarray(self.images[i].transpose(1, 2, 0)), label=label, path=path)


@DATASETS.register_module()
class CIFAR10(CIFAR):
    """CIFAR-10: 32 x 32 photos of ten classes."""

    folder = "cifar-10-batches-py"
    files: ClassVar = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
    meta = ("batches.meta", "label_names")
    key = "labels"
    count = 10


@DATASETS.register_module()
class CIFAR100(CIFAR):
    """CIFAR-100: 32 x 32 photos of a hundred classes."""

    folder = "cifar-100-python"
    files: ClassVar = {"train": ["train"], "test": ["test"]}
    meta = ("meta", "fine_label_names")
    key = "fine_labels"
    count = 100
