"""CutMix of events: a window of one stream in the other, and labels by their shares of the events."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.transforms.cutmix import cutmix
from ndformer.modalities.events.transforms.events import FlipEvents
from tests.framework.helpers import damage_sample
from tests.modalities.events.conftest import rows


def scripted(u, x, y) -> Any:
    """A generator that returns these numbers, for a sensor of 24 x 32 pixels."""
    places = {32: x, 24: y}
    return mock.Mock(random=lambda: u, integers=places.__getitem__)


@pytest.fixture
def two(make_events):
    own = dict(events=make_events(400, 24, 32, seed=1), start=1000, end=200_000, label=3, path="a")
    return own, dict(events=make_events(900, 24, 32, seed=2), start=50, end=300_000, label=5, path="b")


def test_a_window_shows_the_other_one_and_both_begin_at_once(two):
    own, other = two
    before = rows(other["events"])
    found = cutmix(own, other, scripted(0.75, 8, 12))  # half of the sides about (8, 12): 0 <= x < 16, 6 <= y < 18
    inside = lambda row: 0 <= row[0] < 16 and 6 <= row[1] < 18
    kept = [row for row in rows(own["events"]) if not inside(row)]
    new = [(x, y, t + 950, p) for x, y, t, p in before if inside((x, y))]
    assert sorted(rows(found["events"])) == sorted(kept + new)
    assert found["events"].in_order
    assert (found["label"], found["path"], found["start"], found["end"]) == (3, "a", 1000, 300_950)
    assert found["blend"] == (5, len(kept) / (len(kept) + len(new)))
    assert rows(other["events"]) == before


def test_at_the_edges_the_window_is_cut_off_and_nothing_is_never_left(two):
    own, other = two
    found = cutmix(own, other, scripted(0.75, 0, 0))
    assert found["blend"][1] > 0.8  # a quarter of the window is on the sensor
    assert cutmix(own, other, scripted(0.0, 16, 12))["blend"] == (5, 0.0)  # all of the sensor
    none = other | dict(events=other["events"].take(slice(0)))
    assert cutmix(own, none, scripted(0.0, 16, 12)) is own


def test_a_window_has_one_minus_u_of_the_sensor(two):
    own, other = two
    for u in (0.1, 0.4, 0.9):
        found = cutmix(own, other, scripted(u, 16, 12))
        kept = round(found["blend"][1] * len(found["events"]))
        assert kept / 400 == pytest.approx(u, abs=0.12)
        assert len(found["events"]) - kept == pytest.approx(900 * (1 - u), abs=90)


def test_labels_are_blended_and_flipped_along(two):
    own, other = two
    blended = cutmix(own, other, scripted(0.75, 8, 12))
    share = blended["blend"][1]
    mirror = [0, 2, 1, 4, 3, 6, 5]
    flipped = FlipEvents(1.0, mirror)(blended, np.random.default_rng(0))
    assert (flipped["label"], flipped["blend"]) == (4, (6, share))
    targets = Classifier(8, 7).targets([flipped, dict(label=2)], torch.device("cpu"))
    wanted = torch.zeros(2, 7)
    wanted[0, 4], wanted[0, 6], wanted[1, 2] = share, 1 - share, 1
    torch.testing.assert_close(targets, wanted)


@pytest.fixture
def gestures(tmp_path, make_events):
    """data_root of DvsGesture with ten gestures each for training, validation and testing."""
    for name in ("user01_led", "user21_led", "user24_led"):
        write_aedat3(tmp_path / f"{name}.aedat", make_events(3000, 128, 128))
        lines = [f"{label},{label * 10_000},{label * 10_000 + 9000}" for label in range(1, 11)]
        (tmp_path / f"{name}_labels.csv").write_text("\n".join(["class,start,end", *lines]) + "\n")
    (tmp_path / "trials_to_train.txt").write_text("user01_led.aedat\nuser21_led.aedat\n")
    (tmp_path / "trials_to_test.txt").write_text("user24_led.aedat\n")
    return tmp_path


def test_a_damaged_recording_blended_into_another_one_is_named_itself(gestures, monkeypatch):
    kind = dict(type="DvsGesture", data_root=gestures, cutmix=1.0, transforms=[dict(type="PackSpikes", threshold=2)])
    data = DATASETS.create(kind, seed=0)
    damage_sample(data, 3, monkeypatch)
    samples = [data[epoch, 5] for epoch in range(30)]
    assert {error for sample in samples for _, error in sample.get("bad", ())} == {"sample 3 is damaged"}
    assert {sample["data_sample"]["index"] for sample in samples} == {5}
    assert 3 not in {sample["data_sample"]["blend"][0] for sample in samples if "blend" in sample["data_sample"]}


def test_dvsgesture_blends_that_share_of_its_training_samples(gestures):
    kind = dict(type="DvsGesture", data_root=gestures, cutmix=0.5, transforms=[dict(type="PackSpikes", threshold=2)])
    train = DATASETS.create(kind, seed=0)
    found = [train[epoch, i]["data_sample"] for epoch in range(20) for i in range(10)]
    assert sum("blend" in sample for sample in found) == pytest.approx(100, abs=25)
    assert {sample["blend"][0] for sample in found if "blend" in sample} == set(range(10))
    again = DATASETS.create(kind, seed=0)
    assert [again[3, i]["data_sample"].get("blend") for i in range(10)] == [s.get("blend") for s in found[30:40]]
    for split in ("val", "test"):
        plain = DATASETS.create(kind | dict(split=split, cutmix=1.0), seed=0)
        assert not any("blend" in plain[i]["data_sample"] for i in range(10))
    with pytest.raises(ValueError, match="cutmix must be a share of samples between 0 and 1, got 2"):
        DATASETS.create(kind | dict(cutmix=2))
