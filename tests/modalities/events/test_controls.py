"""Events without their motion: what stays and what goes."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndformer.framework.engine.config.load import load
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.transforms.controls import ShuffleTimes, StillMoment

CONFIG = Path(__file__).parents[3] / "configs" / "dvsgesture_pape.py"


def test_places_polarities_and_times_stay_and_their_order_goes(make_events):
    events = make_events(3000)
    found = ShuffleTimes()(dict(events=events, start=0, label=3), np.random.default_rng(0))
    shuffled = found["events"]
    assert found["label"] == 3
    assert np.array_equal(shuffled.t, events.t)
    whole = lambda e: list(zip(e.x.tolist(), e.y.tolist(), e.p.tolist()))
    assert Counter(whole(shuffled)) == Counter(whole(events))
    assert whole(shuffled) != whole(events)


def test_a_line_that_moves_is_everywhere_at_once():
    t = np.arange(3200)
    moving = Events.from_arrays(t // 100, 0 * t, t, 0 * t, 32, 32)
    shuffled = ShuffleTimes()(dict(events=moving), np.random.default_rng(0))["events"]
    assert np.corrcoef(moving.x, moving.t)[0, 1] > 0.99
    assert abs(np.corrcoef(shuffled.x, shuffled.t)[0, 1]) < 0.1


def test_a_moment_is_one_stretch_of_the_sample_any_of_them(make_events):
    events, starts = make_events(2000, until=200_000), set()
    for seed in range(40):
        found = StillMoment(30_000)(dict(events=events, start=5_000, end=195_000), np.random.default_rng(seed))
        start, end, t = found["start"], found["end"], found["events"].t
        assert 5_000 <= start < end <= 195_000
        assert end - start == 30_000
        assert t.tolist() == [v for v in events.t.tolist() if start <= v < end]
        starts.add(start // 30_000)
    assert len(starts) > 4


def test_a_sample_shorter_than_a_moment_is_all_of_it(make_events):
    found = StillMoment(50_000)(dict(events=make_events(10, until=100), start=0, end=100), np.random.default_rng(0))
    assert len(found["events"]) == 10


@pytest.mark.parametrize("small", [False, True])
def test_controls_of_the_config_are_its_recipe_without_motion(small, make_events):
    plain = load(CONFIG, sample=small)
    shuffled = load(CONFIG, ["preset=shuffled"], sample=small)
    still = load(CONFIG, ["preset=still"], sample=small)
    for loader in ("train_dataloader", "val_dataloader", "test_dataloader"):
        transforms, pack = plain[loader].dataset.transforms, dict(type="PackFrames", window=50_000, patch=16)
        assert shuffled[loader].dataset.transforms == [dict(type="ShuffleTimes"), *transforms]
        moment = dict(type="StillMoment", length=50_000)
        assert still[loader].dataset.transforms == [moment, *transforms[:-1], pack]
        shuffled[loader].dataset.transforms = transforms
    assert shuffled.model == plain.model
    sample: dict[str, Any] = dict(events=make_events(5000, 128, 128), start=0, end=200_000, label=1)
    for transform in still.test_dataloader.dataset.transforms:
        sample = TRANSFORMS.create(transform)(sample, np.random.default_rng(0))
    packed = sample["inputs"]["events"]
    assert len(packed) == 64  # one for each patch, all at one time
    assert len(packed[:, 3:7].unique(dim=0)) == 1
