"""Recordings in class folders, whatever their format."""

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.formats.nmnist_bin import write_bin


@pytest.fixture
def recordings(tmp_path, make_events):
    for split, count in (("train", 10), ("val", 1)):
        for label, name in enumerate(("clap", "wave")):
            home = tmp_path / split / name
            home.mkdir(parents=True)
            for i in range(count):
                write_bin(home / f"{i}.bin", make_events(50 + 10 * label, seed=i))
            write_dat(home / "of another kind_td.dat", make_events(50 + 10 * label, 64, 64))
    return tmp_path


def build(root, split="train", **options):
    return DATASETS.create(dict(type="EventFolder", data_root=root, split=split, **options))


def test_folders_are_classes_and_files_of_any_format_recordings(recordings):
    train, val, test = (build(recordings, split) for split in ("train", "val", "test"))
    assert train.classes == ["clap", "wave"]
    assert [len(one) for one in (train, val, test)] == [20, 2, 4]  # val/ is the test set where there is no test/
    for dataset in (train, val, test):
        for i, label in enumerate(dataset.labels):
            sample = dataset[i]
            assert sample["label"] == label == (len(sample["events"]) - 50) // 10
            t = sample["events"].t
            assert (sample["start"], sample["end"]) == (t[0], t[-1])
            assert (np.diff(t) >= 0).all()


def test_a_recording_without_events_is_a_bad_sample(recordings, make_events):
    write_bin(recordings / "train" / "clap" / "1.bin", make_events(0))
    dataset = build(recordings, holdout=0.0)
    number = next(i for i, (path, _) in enumerate(dataset.records) if path.name == "1.bin")
    with pytest.raises(DataError, match=r"clap/1\.bin has no events: replace it or remove it"):
        dataset[number]


def test_a_folder_without_recordings_is_named_with_the_known_endings(recordings):
    (recordings / "train" / "wait").mkdir()
    (recordings / "train" / "wait" / "a.avi").touch()
    with pytest.raises(DataError, match=r"train/wait holds no recording \(\.dat, .*\.raw\)"):
        build(recordings)
