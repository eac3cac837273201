"""MNIST's idx files: gzipped or not, under both spellings of their names, and wrong in several ways."""

import gzip
import struct

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 6, 5), dtype=np.uint8)
LABELS = np.arange(30, dtype=np.uint8) % 10


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + b"".join(struct.pack(">i", n) for n in array.shape) + array.tobytes()


def write(folder, dash="-", packed=True, images=IMAGES, labels=LABELS):
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        for name, array in ((f"{part}-images{dash}idx3-ubyte", images), (f"{part}-labels{dash}idx1-ubyte", labels)):
            content = array if isinstance(array, bytes) else idx(array)
            path = folder / (name + (".gz" if packed else ""))
            path.write_bytes(gzip.compress(content) if packed else content)
    return folder


def mnist(root, **options):
    return DATASETS.create(dict(type="MNIST", data_root=root, **options))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dash", ["-", "."])
def test_images_and_labels_are_read(dash, packed, tmp_path):
    test = mnist(write(tmp_path, dash, packed), split="test")
    assert test.classes == list("0123456789")
    for i in range(30):
        sample = test[i]
        assert sample["image"].mode == "L"
        np.testing.assert_array_equal(np.asarray(sample["image"]), IMAGES[i])
        assert (sample["label"], sample["path"].endswith(f"[{i}]")) == (i % 10, True)


@pytest.mark.parametrize("kind, last", [("MNIST", "9"), ("FashionMNIST", "ankle boot")])
def test_the_folder_of_torchvision_is_read(kind, last, tmp_path):
    write(tmp_path / kind / "raw")
    test = DATASETS.create(dict(type=kind, data_root=tmp_path, split="test"))
    assert (len(test), len(test.classes), test.classes[-1]) == (30, 10, last)


def test_missing_files_are_named_by_data_set(tmp_path):
    with pytest.raises(DataError, match="a file of FashionMNIST"):
        DATASETS.create(dict(type="FashionMNIST", data_root=tmp_path, split="test"))


def test_validation_images_come_from_train(tmp_path):
    write(tmp_path)
    train, val = mnist(tmp_path, holdout=0.34), mnist(tmp_path, split="val", holdout=0.34)
    assert sorted(r[0] for r in train.records + val.records) == list(range(30))
    assert np.bincount(val.labels).tolist() == [1] * 10


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(images=b"\0\0\x0d\3" + idx(IMAGES)[4:]), "starts with 00 00 0d 03, not with 00 00 08 03"),
        (dict(images=idx(LABELS)), "starts with 00 00 08 01, not with 00 00 08 03"),
        (dict(images=b""), "not an idx file"),
        (dict(images=idx(IMAGES)[:-1]), "says that it has 30 x 6 x 5 bytes, but 899 follow"),
        (dict(images=idx(IMAGES) + b"\0"), "but more follow"),
        (dict(images=idx(IMAGES)[:10]), "but 0 follow"),
        (dict(images=IMAGES[:20]), r"has 20 images, but .*labels-idx1-ubyte.* has 30 labels"),
        (dict(labels=LABELS + 1), r"labels-idx1-ubyte.* has the label 10, but there are 10 classes"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_a_wrong_file_is_named_with_the_reason(packed, changes, message, tmp_path):
    write(tmp_path, packed=packed, **changes)
    with pytest.raises(DataError, match=message):
        mnist(tmp_path)


def test_a_broken_gzip_is_named(tmp_path):
    path = write(tmp_path) / "train-images-idx3-ubyte.gz"
    for content in (path.read_bytes()[:-20], b"no gzip"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="train-images-idx3-ubyte.gz is damaged"):
            mnist(tmp_path)


def test_a_missing_file_says_what_where_how_and_sample(tmp_path):
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is missing: .*MNIST.*s3"):
        mnist(tmp_path)
