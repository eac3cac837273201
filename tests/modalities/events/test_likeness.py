"""What recordings have in common, which a model is not to be asked about others without a word."""

import warnings
from types import SimpleNamespace

import pytest

from ndformer.framework.data.fingerprint import changed, fingerprint
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.formats.nmnist_bin import write_bin

SMALL, LARGE = "a sensor of 34 x 34 pixels", "a sensor of 240 x 304 pixels"


@pytest.fixture
def mixed(tmp_path, make_events):
    for label in "ab":
        (tmp_path / "train" / label).mkdir(parents=True)
        write_bin(tmp_path / "train" / label / "0.bin", make_events(50))
        (tmp_path / "train" / label / "bad.raw").write_bytes(b"")
    write_dat(tmp_path / "train" / "b" / "1_td.dat", make_events(50, 240, 304))
    return tmp_path


def test_a_dataset_reports_the_sensors_of_its_readable_recordings(mixed):
    dataset = DATASETS.create(dict(type="EventFolder", data_root=mixed, val_is_test=True))
    assert dataset.likeness() == [LARGE, SMALL]
    described = fingerprint(dataset)
    assert described["like"] == [LARGE, SMALL]
    assert not list(changed(described, described | dict(like=[]), "train"))  # as checkpoints of before have none


@pytest.mark.parametrize(
    "before, own, said",
    [
        (dict(like=[SMALL]), LARGE, True),
        (dict(like=[SMALL]), SMALL, False),
        (dict(like=[SMALL, LARGE]), LARGE, False),
        (dict(parts=dict(events=dict(like=[SMALL]), image=dict(like=[]))), LARGE, True),
        (dict(parts=dict(image=dict(like=[]))), LARGE, False),
        (dict(like=[]), LARGE, False),
        ({}, LARGE, False),  # a checkpoint of before, or one without data
        (dict(like=[SMALL]), None, False),
    ],
)
def test_a_file_from_another_sensor_than_training_gives_a_warning(before, own, said, tmp_path):
    prepared = SimpleNamespace(train_fingerprint=before)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Preparation._check_likeness(prepared, "events", own, tmp_path / "drive.raw")  # pyright: ignore[reportArgumentType]
    says = f"drive.raw has {own}, and the training data have {SMALL}: its prediction is unreliable"
    assert [str(one.message).endswith(says) for one in caught] == [True] * said


def test_a_set_of_damaged_images_has_none(tmp_path):
    for label in "ab":
        (tmp_path / "train" / label).mkdir(parents=True)
        for i in range(2):
            (tmp_path / "train" / label / f"{i}.png").write_bytes(b"")
    dataset = DATASETS.create(dict(type="ImageFolder", data_root=tmp_path, val_is_test=True))
    assert dataset.likeness() == []
