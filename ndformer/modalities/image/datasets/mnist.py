"""MNIST and Fashion-MNIST in idx files, gzipped or not.

    data_root/[MNIST/raw/]   train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], t10k-...
    data_root/[FashionMNIST/raw/]   the same names

An idx file has: 0, 0, a type (8: bytes), the number of dimensions, their sizes as big-endian int32, the bytes.
"""

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, check_labels
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.background import common_background


def read_idx(path: Path, dims: int) -> np.ndarray:
    start = 4 + 4 * dims
    try:
        head = foreign.gunzipped(path, start)
        magic, begin = bytes((0, 0, 8, dims)), bytes(head[:4])
        if begin != magic:
            raise DataError(
                f"{path} is not an idx file of {dims}-dimensional bytes: it starts with {begin.hex(' ')}, "
                f"not with {magic.hex(' ')}, so get it again"
            )
        shape = tuple(np.frombuffer(bytes(head[4:]).ljust(4 * dims, b"\0"), ">i4").tolist())
        size = math.prod(max(0, side) for side in shape)
        content = foreign.gunzipped(path, start + size + 1)  # one byte more, to detect trailing data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): get it again") from None
    if min(shape) < 0 or len(content) - start != size:
        follow = f"{max(0, len(content) - start)}" if len(content) <= start + size else "more"
        raise DataError(
            f"{path} says that it has {' x '.join(map(str, shape))} bytes, but {follow} follow: get it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


@DATASETS.register_module()
class MNIST(Dataset):
    """MNIST: 28 x 28 gray images of digits."""

    classes = [str(digit) for digit in range(10)]
    source = "ossci-datasets.s3.amazonaws.com/mnist"

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        part = {"train": "train", "test": "t10k"}[split]
        home, path = self._find(f"{part}-images", "idx3-ubyte"), self._find(f"{part}-labels", "idx1-ubyte")
        self.images, labels = read_idx(home, 3), read_idx(path, 1).astype(np.int64)  # (N, 28, 28), (N,)
        if len(self.images) != len(labels):
            raise DataError(
                f"{home} has {len(self.images)} images, but {path} has {len(labels)} labels: get both again"
            )
        check_labels(labels, 10, path, "get it again")
        return [(i, label, f"{home}[{i}]") for i, label in enumerate(labels.tolist())], labels

    def _find(self, stem: str, kind: str) -> Path:
        """Find a file by its stem: train-images-idx3-ubyte or train-images.idx3-ubyte, gzipped or not."""
        for home in (self.data_root, self.data_root / type(self).__name__ / "raw"):
            for name in (f"{stem}-{kind}", f"{stem}.{kind}"):
                for ending in ("", ".gz"):
                    if (home / (name + ending)).is_file():
                        return home / (name + ending)
        raise missing(self.data_root / f"{stem}-{kind}.gz", f"a file of {type(self).__name__}", f"{self.source} has it")

    def likeness(self) -> list[str]:
        return common_background(self)

    def identity(self, i: int) -> Any:
        return self.records[i], self.images[self.records[i][0]]

    def read(self, record: Any) -> Sample:
        i, label, path = record
        return dict(image=Image.fromarray(self.images[i]), label=label, path=path)


@DATASETS.register_module()
class FashionMNIST(MNIST):
    """Fashion-MNIST: 28 x 28 gray images of clothes, in files named as those of MNIST."""

    classes = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]
    source = "github.com/zalandoresearch/fashion-mnist"
