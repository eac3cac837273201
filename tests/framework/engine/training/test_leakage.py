"""Loaders that read the same samples are refused, for any dataset and without decoding."""

import os
import shutil

import numpy as np
import pytest
from mmengine.config import Config
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.training import leakage
from ndformer.framework.engine.training.leakage import check_leakage
from ndformer.framework.errors import DataError
from ndformer.modalities.image.datasets.folder import ImageFolder

SPLITS = ("train", "val", "test")


class Given(Dataset):
    """A dataset with given records."""

    def __init__(self, records, name=str):
        self.records, self.labels, self.data_root = records, np.zeros(len(records), int), ""


def config(**loaders):
    return Config({f"{split}_dataloader": dict(dataset={}) | loaders.get(split, {}) for split in SPLITS})


def refused(words):
    return pytest.raises(DataError, match=words)


@pytest.fixture
def photos(tmp_path):
    """40 different images of two classes in each split."""
    rng = np.random.default_rng(0)
    for split in SPLITS:
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(20):
                pixels = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / split / name / f"{split}{i}.png")
    return tmp_path


def folders(root):
    return {split: ImageFolder(root, split) for split in SPLITS}


def test_disjoint_splits_pass(photos):
    check_leakage(config(), folders(photos))


def test_a_link_to_a_file_of_another_split_is_that_file(photos):
    os.symlink(photos / "train" / "cat" / "train3.png", photos / "test" / "cat" / "other.png")
    os.link(photos / "train" / "dog" / "train3.png", photos / "test" / "dog" / "another.png")
    with refused(
        r"test and train have 2 of the 42 samples of test in common, for example .*other.png: give each split"
    ):
        check_leakage(config(), folders(photos))
    check_leakage(config(test=dict(any_split=True)), folders(photos))


def test_one_folder_for_two_splits_is_refused_unless_val_is_test(photos):
    shutil.rmtree(photos / "val")
    os.symlink(photos / "test", photos / "val")
    with refused("test and val have 40 of the 40 samples of test in common"):
        check_leakage(config(), folders(photos))
    check_leakage(config(val=dict(dataset=dict(val_is_test=True))), folders(photos))


def test_many_copies_are_an_error_and_few_a_warning(photos):
    for i in range(3):
        shutil.copy(photos / "train" / "cat" / f"train{i}.png", photos / "val" / "cat" / f"v{i}.png")
    with refused(r"3 of 40 files in val and train are copies, .*v0.png of .*train0.png: give each"):
        check_leakage(config(), folders(photos))
    for i in (1, 2):
        (photos / "val" / "cat" / f"v{i}.png").unlink()
    with pytest.warns(UserWarning, match=r"^1 of 40 files in val and train are copies"):
        check_leakage(config(), folders(photos))


def test_samples_of_one_file_are_distinguished_by_their_identity(photos):
    table = photos / "train" / "cat" / "train0.png"
    rows = [(i, 0, table) for i in range(10)]
    check_leakage(
        config(), dict(train=Given(rows[:6]), val=Given(rows[6:]), test=Given([(90, 0, table), (91, 0, table)]))
    )
    with refused("val and train have 1 of the 5 samples of val in common"):
        check_leakage(config(), dict(train=Given(rows[:6]), val=Given(rows[5:])))


def test_samples_without_files_are_compared_by_arrays_and_not_by_numbers_alone():
    arrays = [np.full(4, i) for i in range(6)]
    with refused("val and train have 2 of the 4 samples of val in common, for example sample 0"):
        check_leakage(config(), dict(train=Given(arrays[:4]), val=Given(arrays[2:])))
    check_leakage(config(), dict(train=Given([(0, "cat"), (1, "dog")]), val=Given([(0, "cat")])))


def test_no_file_is_read_if_all_sizes_differ(photos, monkeypatch):
    for split in SPLITS:
        for i, file in enumerate(sorted((photos / split).rglob("*.png"))):
            file.write_bytes(b"x" * (1 + 3 * i + SPLITS.index(split)))
    monkeypatch.setattr(leakage.foreign, "opened", lambda path: pytest.fail(f"{path} was read"))
    check_leakage(config(), folders(photos))
