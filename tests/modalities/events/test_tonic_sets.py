"""Datasets of tonic, and of a module that looks like it."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.nmnist_bin import write_bin
from tests.modalities.events.conftest import same

KIND = dict(type="Tonic", name="Dots")


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.zeros(n, [("x", "<i2"), ("y", "<i2"), ("t", "<i8"), ("p", "?")])
    rows["x"], rows["y"], rows["p"] = rng.integers(0, 34, n), rng.integers(0, 20, n), rng.random(n) < 0.5
    rows["t"] = rng.permutation(n) * 10
    return rows


@pytest.fixture
def tonic(monkeypatch):
    """datasets of three kinds."""
    datasets: Any = ModuleType("tonic.datasets")

    class Dots:
        sensor_size, classes = (34, 20, 2), ["zero", "one"]

        def __init__(self, save_to, train=True, shift=0):
            self.targets = [0, 1, 1] * (10 if train else 2)
            self.shift = shift
            if not (Path(save_to) / type(self).__name__).is_dir():
                self.download()

        def download(self):
            raise OSError("no network")

        def __len__(self):
            return len(self.targets)

        def __getitem__(self, i) -> Any:
            return table(50 + self.shift, i), self.targets[i]

    class Named(Dots):
        """No list of labels, and they are names."""

        def __init__(self, save_to):
            self.shift = 0

        def __len__(self):
            return 4

        def __getitem__(self, i) -> Any:
            return table(5, i), ["one", "zero"][i % 2]

    class Frames(Dots):
        def __getitem__(self, i) -> Any:
            return np.zeros((3, 4)), 0

    datasets.Dots, datasets.Named, datasets.Frames = Dots, Named, Frames
    module: Any = ModuleType("tonic")
    module.datasets = datasets
    monkeypatch.setitem(sys.modules, "tonic", module)
    monkeypatch.setitem(sys.modules, "tonic.datasets", datasets)


@pytest.fixture
def home(tmp_path):
    for name in ("Dots", "Named", "Frames"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_samples_are_events_and_labels(tonic, home):
    train, val, test = (DATASETS.create(KIND | dict(data_root=home, split=s)) for s in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (27, 3, 6)
    assert train.classes == ["zero", "one"]
    assert test.labels.tolist() == [0, 1, 1, 0, 1, 1]
    sample, rows = test[4], np.sort(table(50, 4), order="t")
    events = sample["events"]
    assert (events.height, events.width, sample["label"], sample["path"]) == (20, 34, 1, "Dots[4]")
    assert (sample["start"], sample["end"]) == (0, 490)
    for name in "xytp":
        assert np.array_equal(getattr(events, name), rows[name])
    pack = [dict(type="PackSpikes", threshold=4, refractory=0, patch=8, bins=2)]
    packed = DATASETS.create(KIND | dict(data_root=home, split="test", transforms=pack, options=dict(shift=20)))[0]
    assert len(packed["inputs"]["events"]) > 3


def test_labels_that_are_names_and_a_set_in_one_piece(tonic, home):
    named = DATASETS.create(dict(type="Tonic", name="Named", data_root=home, holdout=0.0))
    assert named.labels.tolist() == [1, 0, 1, 0]
    with pytest.raises(DataError, match="Named is not split into train and test"):
        DATASETS.create(dict(type="Tonic", name="Named", data_root=home, split="test"))


def test_wrong_sets_are_errors(tonic, home, tmp_path):
    with pytest.raises(DataError, match="tonic has no dataset 'Dot', did you mean 'Dots'"):
        DATASETS.create(dict(type="Tonic", name="Dot", data_root=home))
    with pytest.raises(DataError, match="nowhere does not have tonic's Dots.*download=True"):
        DATASETS.create(KIND | dict(data_root=tmp_path / "nowhere"))
    with pytest.raises(DataError, match="tonic cannot make Dots of .*nowhere.*no network"):
        DATASETS.create(KIND | dict(data_root=tmp_path / "nowhere", download=True))
    with pytest.raises(DataError, match="tonic cannot make Dots of .*unexpected keyword"):
        DATASETS.create(KIND | dict(data_root=home, options=dict(shit=1)))
    frames = DATASETS.create(dict(type="Tonic", name="Frames", data_root=home))
    with pytest.raises(DataError, match=r"sample 2 of tonic's Frames is no table .*float64 of shape \(3, 4\)"):
        frames[0]


def test_without_tonic_the_error_names_the_package(monkeypatch, home):
    monkeypatch.setitem(sys.modules, "tonic", None)
    with pytest.raises(DataError, match=r"needs the package tonic.*pip install 'ndformer\[tonic\]'.*GPL"):
        DATASETS.create(KIND | dict(data_root=home))


def test_a_real_one(home, make_events):
    """N-MNIST as tonic finds it, in files of our own writing, beside our own reader."""
    pytest.importorskip("tonic")
    for split in ("Train", "Test"):
        for digit in range(10):
            (home / "NMNIST" / split / str(digit)).mkdir(parents=True)
            for i in range(2):
                write_bin(home / "NMNIST" / split / str(digit) / f"{i:05d}.bin", make_events(40, 34, 34, seed=i))
        (home / "NMNIST" / f"{split.lower()}.zip").touch()
    for split in ("train", "test"):
        theirs = DATASETS.create(dict(type="Tonic", name="NMNIST", data_root=home, split=split))
        ours = DATASETS.create(dict(type="NMNIST", data_root=home / "NMNIST", split=split))
        assert sorted(theirs.labels) == sorted(ours.labels)
        same(theirs[0]["events"], ours[0]["events"])
