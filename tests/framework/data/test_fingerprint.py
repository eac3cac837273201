"""Fingerprints detect changed data and nothing else. tests/soak/changed_data.py tries more through programs."""

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndformer.framework.data import fingerprint as module
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import changed, fingerprint
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.registry import DATASETS
from tests.soak import changed_data


class Texts(ClassFolders):
    endings, kind = (".txt",), "text"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            for i in range(4):
                path = tmp_path / "data" / split / name / f"{i}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{name} {i}")
    return tmp_path / "data"


def swap(home: Path) -> None:
    cat, dog = home / "train/cat", home / "train/dog"
    cat.rename(home / "beside")
    dog.rename(cat)
    (home / "beside").rename(dog)


def half(home: Path) -> None:
    for path in [*(home / "train/cat").iterdir()][:2]:
        path.unlink()


def rename_class(home: Path) -> None:
    for split in ("train", "test"):
        (home / split / "dog").rename(home / split / "hound")


WAYS = {
    "removed": (lambda home: (home / "train/cat/1.txt").unlink(), "train: 'cat' had 4 samples, has 3"),
    "added": (lambda home: (home / "train/cat/9.txt").write_text("new"), "train: 'cat' had 4 samples, has 5"),
    "renamed": (
        lambda home: (home / "train/cat/1.txt").rename(home / "train/cat/8.txt"),
        "train: 'cat' has samples of other names, or in another order",
    ),
    "of another size": (
        lambda home: (home / "train/cat/1.txt").write_text("longer"),
        "train: 'cat' has files of other sizes (20 bytes in all, now 21)",
    ),
    "of the same size": (
        lambda home: (home / "train/cat/1.txt").write_text("bat 1"),
        "train: 'cat' has samples of the same names and sizes with another content or another annotation",
    ),
    "half deleted": (half, "train: 'cat' had 4 samples, has 2"),
    "classes swapped": (
        swap,
        "train: 'cat' has samples of the same names and sizes with another content or another annotation",
    ),
    "a class renamed": (
        rename_class,
        "train: 'dog' is called 'hound' now, has samples of other names, or in another order",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_change_of_a_dataset_is_reported(home: Path, way: str) -> None:
    before = fingerprint(Texts(home, val_is_test=True))
    change, sentence = WAYS[way]
    change(home)
    assert next(changed(before, fingerprint(Texts(home, val_is_test=True)), "train")) == sentence


def test_a_moved_or_copied_dataset_is_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(Texts(home))
    shutil.copytree(home, home.parent / "elsewhere")
    for path in (home.parent / "elsewhere").rglob("*.txt"):
        os.utime(path, (1, 1))
    monkeypatch.chdir(home.parent)
    for root in (home.parent / "elsewhere", "elsewhere", "elsewhere/", "./elsewhere"):
        assert fingerprint(Texts(root)) == before


def test_large_datasets_compare_all_sizes_and_some_content(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_READ_FILES", 2)  # the first and the last
    monkeypatch.setattr(module, "STAT_BATCH", 3)
    before = fingerprint(Texts(home, val_is_test=True))
    (home / "train/cat/1.txt").write_text("bat 1")
    assert fingerprint(Texts(home, val_is_test=True)) == before
    (home / "train/cat/0.txt").write_text("bat 0")
    assert fingerprint(Texts(home, val_is_test=True)) != before
    before = fingerprint(Texts(home, val_is_test=True))
    (home / "train/cat/1.txt").write_text("bat  1")
    assert fingerprint(Texts(home, val_is_test=True)) != before


@dataclasses.dataclass
class Boxed:
    path: Path
    boxes: np.ndarray
    helper: object


class Boxes(Dataset):
    answer = "Boxes"
    corner = 1.0

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = ["cat"]
        boxes = np.array([[0, 0, self.corner, 1]])
        return [Boxed(self.data_root / "x.png", boxes, object()) for _ in range(3)], np.zeros(3, np.int64)


class Moved(Boxes):
    corner = 2.0


def test_annotations_are_compared_and_other_objects_are_not(tmp_path: Path) -> None:
    before = fingerprint(Boxes(tmp_path, holdout=0))
    assert fingerprint(Boxes(tmp_path, holdout=0)) == before
    (sentence,) = changed(before, fingerprint(Moved(tmp_path, holdout=0)), "train")
    assert sentence == "train: has samples of the same names and sizes with another content or another annotation"


def test_a_fifo_among_the_files_does_not_hang(home: Path) -> None:
    (home / "train/cat/1.txt").unlink()
    os.mkfifo(home / "train/cat/1.txt")
    fingerprint(Texts(home, val_is_test=True))


def test_parts_of_a_mixture_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DATASETS.all()
    monkeypatch.setitem(DATASETS.module_dict, "Texts", Texts)
    part = dict(type="Texts", data_root=str(home), val_is_test=True)
    before = fingerprint(Mixture(dict(one=part, other=part)))
    (home / "train/cat/1.txt").unlink()
    one, _ = changed(before, fingerprint(Mixture(dict(one=part, other=part))), "train")
    assert one == "train, one: 'cat' had 4 samples, has 3"
    told = list(changed(before, fingerprint(Mixture(dict(one=part, third=part))), "train"))
    assert told[1:] == ["train: other is gone", "train: third is new"]


@pytest.mark.parametrize("way", [way for way in changed_data.WAYS if "added" in way or "replaced" in way])
def test_changes_of_the_soak_give_each_split_its_own_pictures(way: str, tmp_path: Path) -> None:
    changed_data.data(tmp_path)
    before = {path.read_bytes() for path in tmp_path.rglob("*.bmp")}
    for split in ("train", "test"):
        changed_data.WAYS[way](tmp_path / split)
    new = [path.read_bytes() for path in sorted(tmp_path.rglob("*.bmp")) if path.read_bytes() not in before]
    assert len(new) == len(set(new)) == 2


def test_another_order_of_the_same_samples_is_reported(home: Path) -> None:
    before = fingerprint(Texts(home, "train"))
    assert list(changed(before, dict(before), "train")) == []
    assert list(changed(before, before | dict(order="0"), "train")) == ["train: the same samples in another order"]
