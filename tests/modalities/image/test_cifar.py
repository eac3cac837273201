"""CIFAR's pickled batches: every way they have been written is read, and a hostile one runs nothing."""

import codecs
import os
import pickle
import struct

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.cifar import unpickle

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
FILES = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]


def python2(batch):
    """Protocol 2 as Python 2 wrote it, the way the original files are: str is bytes, and numpy is numpy 1."""

    def put(value):
        if isinstance(value, dict):
            return b"}(" + b"".join(put(k) + put(v) for k, v in value.items()) + b"u"
        if isinstance(value, list):
            return b"](" + b"".join(map(put, value)) + b"e"
        if isinstance(value, str):
            return b"T" + struct.pack("<i", len(value)) + value.encode()
        if isinstance(value, int):
            return b"J" + struct.pack("<i", value)
        reconstruct = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        shape = b"(" + b"".join(put(n) for n in value.shape) + b"t"
        content = value.tobytes()
        return reconstruct + b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<i", len(content)) + content + b"tb"

    return b"\x80\x02" + put(batch) + b"."


def python3(protocol, encode=False):
    return lambda batch: pickle.dumps({k.encode() if encode else k: v for k, v in batch.items()}, protocol)


WRITERS = {
    "python 2": python2,
    "python 3, protocol 2": python3(2),
    "protocol 3": python3(3),
    "protocol 4": python3(4),
    "protocol 5": python3(5),
    "bytes as keys": python3(4, encode=True),
}


def write(folder, dump=python2, names=tuple("abcdefghij"), **changes):
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(FILES):
        batch = dict(data=IMAGES ^ i, labels=[0, 9, 5, i], filenames=["x.png"] * 4) | changes
        (folder / name).write_bytes(dump(batch))
    (folder / "batches.meta").write_bytes(dump(dict(label_names=list(names))))
    return folder


def cifar(root, **options):
    return DATASETS.create(dict(type="CIFAR10", data_root=root, **options))


@pytest.mark.parametrize("how", WRITERS)
def test_batches_are_read_however_they_were_written(how, tmp_path):
    test = cifar(write(tmp_path, WRITERS[how]), split="test")
    assert test.classes == list("abcdefghij")
    assert test.labels.tolist() == [0, 9, 5, 5]
    for i in range(4):
        sample = test[i]
        red_green_blue = (IMAGES[i] ^ 5).reshape(3, 32, 32)
        np.testing.assert_array_equal(np.asarray(sample["image"]).transpose(2, 0, 1), red_green_blue)
        assert sample["label"] == test.labels[i]
        assert sample["path"].endswith(f"test_batch[{i}]")


def test_train_is_the_five_batches_in_order(tmp_path):
    write(tmp_path)
    both = [cifar(tmp_path, split=split, holdout=0.1) for split in ("train", "val")]
    assert sorted(record[0] for dataset in both for record in dataset.records) == list(range(20))
    for dataset in both:
        for i, (number, label, path) in enumerate(dataset.records):
            batch, row = divmod(number, 4)
            assert (label, path) == ([0, 9, 5, batch][row], f"{tmp_path}/data_batch_{batch + 1}[{row}]")
            np.testing.assert_array_equal(
                np.asarray(dataset[i]["image"]).transpose(2, 0, 1).ravel(), IMAGES[row] ^ batch
            )


def test_the_folder_of_the_archive_may_be_inside(tmp_path):
    write(tmp_path / "cifar-10-batches-py")
    assert len(cifar(tmp_path, split="test")) == 4


def test_cifar100_has_fine_labels(tmp_path):
    names = [f"class {i}" for i in range(100)]
    (tmp_path / "meta").write_bytes(python2(dict(fine_label_names=names, coarse_label_names=["x"] * 20)))
    for name in ("train", "test"):
        batch = dict(data=IMAGES, fine_labels=[3, 99, 0, 7], coarse_labels=[1, 2, 3, 4])
        (tmp_path / name).write_bytes(python2(batch))
    test = DATASETS.create(dict(type="CIFAR100", data_root=tmp_path, split="test"))
    assert test.labels.tolist() == [3, 99, 0, 7]
    assert test.classes[99] == "class 99"


class Hostile:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("call", [os.mkdir, os.system, eval, exec, getattr, open, np.fromfile, np.load])
def test_a_hostile_pickle_runs_nothing(call, tmp_path):
    trap = tmp_path / "trap"
    argument = {os.mkdir: str(trap), os.system: f"mkdir {trap}"}.get(call, f"__import__('os').mkdir({str(trap)!r})")
    content = pickle.dumps(dict(data=Hostile(call, argument)), 2)
    path = write(tmp_path / "set") / "data_batch_3"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_3 is not a CIFAR batch \(it asks for .*\): get the dataset again"):
        cifar(tmp_path / "set")
    assert not trap.exists()


def test_the_trap_would_have_sprung(tmp_path):
    pickle.loads(pickle.dumps(dict(data=Hostile(os.mkdir, str(tmp_path / "trap"))), 2))
    assert (tmp_path / "trap").exists()


def test_only_the_codec_that_pickles_use_is_allowed(tmp_path):
    (tmp_path / "x").write_bytes(pickle.dumps(dict(a=Hostile(codecs.encode, "x" * 9, "zip")), 2))
    with pytest.raises(DataError, match="text encoding zip"):
        unpickle(tmp_path / "x")


@pytest.mark.parametrize("content", [b"", b"\x80\x02}", b"no pickle", python2(dict(a=1))[:-1], pickle.dumps([1, 2])])
def test_a_damaged_batch_is_named(content, tmp_path):
    path = write(tmp_path) / "test_batch"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"^{path} is not a CIFAR batch"):
        cifar(tmp_path, split="test")


@pytest.mark.parametrize(
    "changes",
    [
        dict(data=IMAGES[:, :1000]),
        dict(data=IMAGES[:3]),
        dict(data=IMAGES.astype(np.float32)),
        dict(data=[1, 2, 3, 4]),
        dict(data=IMAGES.reshape(-1)),
        dict(labels=[1, 2, 3]),
        dict(labels="abcd"),
    ],
)
def test_a_batch_of_another_shape_is_named(changes, tmp_path):
    write(tmp_path, python3(4), **changes)
    with pytest.raises(DataError, match="data_batch_1 is not a CIFAR batch .*3072"):
        cifar(tmp_path)


@pytest.mark.parametrize("label", [-1, 10])
def test_a_label_out_of_range_is_named(label, tmp_path):
    write(tmp_path, labels=[0, 1, label, 3])
    with pytest.raises(DataError, match=f"data_batch_1 has the label {label}, but there are 10 classes"):
        cifar(tmp_path)


def test_class_names_of_another_number_are_refused(tmp_path):
    write(tmp_path, names=("a", "b"))
    with pytest.raises(DataError, match=r"batches.meta must name 10 classes under 'label_names'"):
        cifar(tmp_path)


@pytest.mark.parametrize("name", [*FILES[:5], "batches.meta"])
def test_a_missing_file_says_what_where_how_and_sample(name, tmp_path):
    (write(tmp_path) / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is missing: .*CIFAR10.*cifar-10-python\.tar\.gz"):
        cifar(tmp_path)
