"""tools/prepare_gen1.py: the same samples with and without its index, and outdated indices."""

import os
import warnings

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.datasets.gen1 import dataset as gen1
from ndformer.modalities.events.datasets.gen1 import index as gen1_index
from ndformer.modalities.events.formats.evt_dat import Dat, write_dat
from tests.modalities.events.conftest import random_events
from tools import prepare_gen1

TABLE = [("t", "<i8"), *((name, "<f4") for name in "xywh"), ("class_id", "u1")]
SPLITS = ("train", "val", "test")


@pytest.fixture
def home(tmp_path):
    """Three recordings of two seconds per split, with boxes at ten moments; the second has none."""
    rng = np.random.default_rng(0)
    for split in SPLITS:
        (tmp_path / split).mkdir()
        for number in range(3):
            write_dat(
                tmp_path / split / f"{number}_td.dat", random_events(3000, 240, 304, until=2_000_000, seed=number)
            )
            rows = np.zeros(30 * (number != 1), TABLE)
            rows["t"] = np.sort(rng.choice(np.arange(200_000, 2_000_001, 200_000), len(rows)))
            rows["x"], rows["y"] = rng.uniform(0, 200, (2, len(rows)))
            rows["w"], rows["h"] = rng.uniform(5, 100, (2, len(rows)))
            rows["class_id"] = rng.integers(0, 2, len(rows))
            np.save(tmp_path / split / f"{number}_bbox.npy", rows)
    return tmp_path


def opened(home, split="train"):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return DATASETS.create(dict(type="GEN1", data_root=home, split=split, most=400))


def test_a_recording_that_ends_before_its_boxes_is_named(home):
    (home / "train" / "0_td.dat").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"1 recordings.*\n.*train/0_td\.dat has no events before its first boxes: download"
    ):
        prepare_gen1.main([str(home)])


@pytest.mark.parametrize("split", SPLITS)
def test_samples_are_the_same_with_an_index_and_nothing_is_looked_for(home, split, monkeypatch):
    plain = opened(home, split)
    expected = [plain[i] for i in range(len(plain))]
    prepare_gen1.main([str(home)])
    monkeypatch.setattr(gen1, "moments", None)
    monkeypatch.setattr(Dat, "until", None)
    kept = opened(home, split)
    assert len(kept) == len(expected) > 10
    for number, sample in enumerate(expected):
        ours = kept[number]
        assert set(ours) == set(sample)
        for name in ("start", "end", "path"):
            assert ours[name] == sample[name]
        for name in ("boxes", "labels"):
            assert ours[name].dtype == sample[name].dtype
            assert np.array_equal(ours[name], sample[name])
        for name in ("x", "y", "t", "p"):
            assert np.array_equal(getattr(ours["events"], name), getattr(sample["events"], name))


@pytest.mark.parametrize("change", ["boxes", "recording", "fewer"])
def test_files_that_have_changed_are_read_anew(home, change):
    prepare_gen1.main([str(home)])
    split = home / "train"
    if change == "boxes":
        rows = np.load(split / "0_bbox.npy")[:3]
        rows["t"] = 1_000_000, 1_100_000, 1_200_000
        rows["w"] = rows["h"] = 50
        np.save(split / "0_bbox.npy", rows)
    elif change == "recording":
        os.utime(split / "0_td.dat", (1, 1))
    else:
        (split / "0_bbox.npy").unlink()
    with pytest.warns(UserWarning, match="of other files than are there now.*prepare_gen1.py"):
        changed = DATASETS.create(dict(type="GEN1", data_root=home))
    gen1_index.index_path(split).unlink()
    assert [record.time for record in changed.records] == [record.time for record in opened(home).records]


@pytest.mark.parametrize("damage", [lambda b: b[:200], lambda b: b"", lambda b: b[:60] + bytes(60) + b[120:]])
def test_a_damaged_index_is_not_used(home, damage):
    prepare_gen1.main([str(home)])
    path = gen1_index.index_path(home / "train")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match="is damaged and not used"):
        assert len(DATASETS.create(dict(type="GEN1", data_root=home))) > 10


def test_it_says_what_there_is_and_what_is_wrong(home, capsys):
    (home / "test" / "1_bbox.npy").write_bytes(b"none")
    (home / "test" / "2_td.dat").write_bytes(b"% no\n")
    with pytest.raises(DataError, match=r"2 recordings cannot be used:\n.*1_bbox.npy.*\n.*2_td.dat"):
        prepare_gen1.main([str(home)])
    train, val, test = capsys.readouterr().out.splitlines()
    assert train.startswith("train: 3 recordings, ")
    assert "cars" in train
    assert "pedestrians" in val
    assert test == "test: 2 of 3 recordings cannot be used"
    assert gen1_index.index_path(home / "val").is_file()
    assert not gen1_index.index_path(home / "test").exists()
    with pytest.raises(DataError, match="expected one of the folders train, val, test"):
        prepare_gen1.main([str(home / "train")])
