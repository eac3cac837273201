"""Augmentations of events: as by hand, boxes and labels with them, never down to nothing."""

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.events.adapter import SpikingPatches
from ndformer.modalities.events.formats.stream import Events, recording_sample
from ndformer.modalities.events.spikes.spiking import Rule
from ndformer.modalities.events.spikes.tokenizers import SpikingTokenizer
from ndformer.modalities.events.spikes.tokens import unpack
from ndformer.modalities.events.transforms.events import (
    DropArea,
    DropEvents,
    DropTime,
    FlipEvents,
    LastEvents,
    OneOf,
    PackFrames,
    PackSpikes,
    PackVoxels,
    RollEvents,
    RotateEvents,
    ShearEvents,
)
from tests.modalities.events.conftest import rows

ALL = [DropArea(), DropEvents(), DropTime(), FlipEvents(1.0), RollEvents(), RotateEvents(), ShearEvents()]
NAMES = [type(t).__name__ for t in ALL]


def scripted(*numbers) -> Any:
    """A generator that returns these numbers in turn."""
    numbers = list(numbers)
    say = numbers.pop
    return mock.Mock(random=lambda *_: say(0), uniform=lambda *_: say(0), integers=lambda *_: say(0))


def sample(make_events, n=400, **more) -> dict[str, Any]:
    return dict(events=make_events(n, 24, 32), start=0, end=200_000, label=1, **more)


@pytest.mark.parametrize("transform", ALL, ids=NAMES)
def test_events_stay_in_order_on_the_sensor_and_the_sample_as_it_was(make_events, transform):
    given = sample(make_events)
    before = rows(given["events"])
    for seed in range(10):
        found = transform(given, np.random.default_rng(seed))["events"]
        assert 0 < len(found) <= 400
        assert found.in_order
        assert found.x.max() < 32
        assert found.y.max() < 24
        assert (found.x.dtype, found.y.dtype, found.t.dtype) == (np.uint16, np.uint16, np.int64)
    assert rows(given["events"]) == before
    assert given["label"] == 1


@pytest.mark.parametrize("transform", ALL, ids=NAMES)
@pytest.mark.parametrize("n", [0, 1])
def test_few_events_are_no_error_and_never_become_none(make_events, transform, n):
    for seed in range(20):
        assert len(transform(sample(make_events, n), np.random.default_rng(seed))["events"]) == n


@pytest.mark.parametrize(
    "transform, method, bounds",
    [
        (DropEvents(), "uniform", (0.1, 0.75)),
        (DropTime(), "uniform", (0.1, 0.75)),
        (DropArea(), "uniform", (0.05, 0.3)),
        (ShearEvents(), "uniform", (-0.3, 0.3)),
        (RotateEvents(), "uniform", (-30.0, 30.0)),
        (RotateEvents(20), "uniform", (-20, 20)),
        (RollEvents(), "integers", (-5, 6, 2)),  # the upper one is not drawn
    ],
)
def test_chance_has_the_published_bounds(make_events, transform, method, bounds):
    rng = mock.Mock(wraps=np.random.default_rng(0))
    transform(sample(make_events), rng)
    assert getattr(rng, method).call_args_list == [mock.call(*bounds)]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: DropEvents((0.9, 0.1)), r"share must be \(lowest, highest\), each from 0 to 1, got 0.9 and 0.1"),
        (lambda: DropTime((-1, 0)), "got -1 and 0"),
        (lambda: DropArea((0.5, 2)), "got 0.5 and 2"),
        (lambda: LastEvents(0), "count of LastEvents must be 1 or more, got 0"),
        (lambda: SpikingPatches(8, time_unit=0), "time_unit must be a number of microseconds above 0, got 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_flip_refuses_a_label_outside_its_label_map(make_events):
    with pytest.raises(DataError, match="FlipEvents expects labels below 1, the length of `labels`, got 1"):
        FlipEvents(1.0, [0])(sample(make_events), np.random.default_rng(0))
    unknown = sample(make_events) | dict(label=-1)
    assert FlipEvents(1.0, [0])(unknown, np.random.default_rng(0))["label"] == -1


def test_flips_are_as_likely_as_not(make_events):
    given, rng = sample(make_events, 3), np.random.default_rng(0)
    kept = sum(FlipEvents()(given, rng)["events"] is given["events"] for _ in range(1000))
    assert kept == pytest.approx(500, abs=50)
    assert not any(FlipEvents(0.0)(given, rng) is not given for _ in range(20))


def test_a_share_of_the_events_goes(make_events):
    given, dice = sample(make_events), np.random.default_rng(5).random(400)
    found = DropEvents()(given, scripted(0.4, dice))["events"]
    assert rows(found) == [row for row, die in zip(rows(given["events"]), dice) if die > 0.4]
    rng = np.random.default_rng(0)
    left = [len(DropEvents()(given, rng)["events"]) / 400 for _ in range(300)]
    assert np.mean(left) == pytest.approx(1 - (0.1 + 0.75) / 2, abs=0.04)


def test_the_rule_of_packing_is_the_one_that_was_given():
    published = PackSpikes().tokenizer
    assert isinstance(published, SpikingTokenizer)
    assert (published.rule, published.patch, published.bins) == (Rule(256, 100_000), 16, 10)
    other = PackSpikes(7, 3000, 8, 4, "end")
    assert isinstance(other.tokenizer, SpikingTokenizer)
    assert (other.tokenizer.rule, other.tokenizer.patch, other.ages) == (Rule(7, 3000), 8, True)


def test_flip_mirrors_events_boxes_and_labels(make_events):
    boxes = np.array([[2, 3, 10, 5]], np.float32)
    given = sample(make_events, boxes=boxes, labels=np.array([0]))
    found = FlipEvents(1.0, [0, 2, 1])(given, np.random.default_rng(0))
    assert rows(found["events"]) == [(31 - x, y, t, p) for x, y, t, p in rows(given["events"])]
    assert found["label"] == 2
    assert found["boxes"].tolist() == [[32 - 12, 3, 10, 5]]
    assert boxes.tolist() == [[2, 3, 10, 5]]


def test_events_in_a_stretch_of_time_go(make_events):
    given = sample(make_events)
    t = given["events"].t
    found = DropTime()(given, scripted(0.25, 0.5))["events"]
    begin, whole = t[0] + 0.25 * (t[-1] - t[0]), t[-1] - t[0]
    assert found.t.tolist() == [v for v in t.tolist() if v < begin or v > begin + 0.5 * whole]


def test_events_and_boxes_in_an_area_go(make_events):
    boxes = np.array([[0, 0, 4, 4], [20, 10, 5, 5], [14, 0, 1, 24]], np.float32)
    given = sample(make_events, boxes=boxes, labels=np.array([0, 1, 0]))
    found = DropArea()(given, scripted(0.25, 20, 12))  # 8 x 6 pixels about (20, 12): 16..24, 9..15
    wanted = [row for row in rows(given["events"]) if not (16 <= row[0] <= 24 and 9 <= row[1] <= 15)]
    assert rows(found["events"]) == wanted
    assert found["boxes"].tolist() == boxes[[0, 2]].tolist()
    assert found["labels"].tolist() == [0, 0]


def test_an_area_takes_the_boxes_that_it_touches_from_any_side(make_events):
    """Rectangles touch if their centers are at most half of both sizes apart, along both axes."""
    places = [(x, y, *size) for x in range(0, 32, 3) for y in range(0, 24, 3) for size in ((3, 7), (7, 3))]
    given = sample(make_events, boxes=np.array(places, np.float32), labels=np.arange(len(places)))
    result = DropArea()(given, scripted(0.25, 16, 12))  # 8 x 6 pixels about (16, 12)
    separate = lambda x, y, w, h: abs(x + w / 2 - 16) > (8 + w) / 2 or abs(y + h / 2 - 12) > (6 + h) / 2
    assert result["labels"].tolist() == [i for i, place in enumerate(places) if separate(*place)]


def test_shear_and_roll_as_by_hand(make_events):
    given = sample(make_events)
    found = ShearEvents()(given, scripted(-0.3))["events"]
    sheared = [(int(np.floor(x - 0.3 * y)), y, t, p) for x, y, t, p in rows(given["events"])]
    assert rows(found) == [row for row in sheared if 0 <= row[0] < 32]
    found = RollEvents()(given, scripted(np.array([-5, 3])))["events"]
    assert rows(found) == [((x - 5) % 32, (y + 3) % 24, t, p) for x, y, t, p in rows(given["events"])]


def test_rotation_as_by_hand(make_events):
    events = make_events(300, 32, 32)
    boxes = np.array([[4, 8, 6, 2], [0, 0, 3, 3]], np.float32)
    given = dict(events=events, boxes=boxes, labels=np.array([0, 1]))
    cos, sin = math.cos(math.radians(20)), math.sin(math.radians(20))
    turned = []
    for x, y, t, p in rows(events):
        x, y = x + 0.5 - 16, y + 0.5 - 16  # the center of its pixel
        turned.append((math.floor(cos * x - sin * y + 16), math.floor(sin * x + cos * y + 16), t, p))
    wanted = [row for row in turned if 0 <= row[0] < 32 and 0 <= row[1] < 32]
    assert rows(RotateEvents()(given, scripted(20.0))["events"]) == wanted
    found = RotateEvents()(given, scripted(90.0))
    np.testing.assert_allclose(found["boxes"], [[32 - 10, 4, 2, 6], [29, 0, 3, 3]], atol=1e-5)
    assert found["labels"].tolist() == [0, 1]


def test_small_turns_move_no_event_and_right_angles_lose_none(make_events):
    """Corners of pixels were turned: events moved half a pixel against their boxes, and 10 of 100 left the sensor."""
    events = make_events(200, 10, 10)
    assert rows(RotateEvents()(dict(events=events), scripted(0.001))["events"]) == rows(events)
    turned = RotateEvents()(dict(events=events), scripted(90.0))["events"]
    assert sorted(zip(turned.x, turned.y)) == sorted(zip(9 - events.y.astype(int), events.x.astype(int)))


def test_boxes_that_turn_out_of_the_frame_go(make_events):
    given = sample(make_events, boxes=np.array([[0, 0, 3, 3], [14, 10, 4, 4]], np.float32), labels=np.array([0, 1]))
    found = RotateEvents()(given, scripted(20.0))
    assert found["labels"].tolist() == [1]


@pytest.mark.parametrize("degrees", [20.0, -70.0])
def test_boxes_turn_about_the_center_and_stay_if_all_of_them_is_on_the_sensor(make_events, degrees):
    places = [(x, y, 3, 5) for x in range(0, 30, 2) for y in range(0, 20, 2)]
    given = sample(make_events, boxes=np.array(places, np.float32), labels=np.arange(len(places)))
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    expected = {}
    for i, (x, y, w, h) in enumerate(places):
        corners = [(a - 16, b - 12) for a in (x, x + w) for b in (y, y + h)]
        turned = np.array([(cos * a - sin * b + 16, sin * a + cos * b + 12) for a, b in corners])
        if turned.min() >= 0 and turned[:, 0].max() <= 32 and turned[:, 1].max() <= 24:
            expected[i] = [*turned.min(0), *np.ptp(turned, axis=0)]
    result = RotateEvents()(given, scripted(degrees))
    assert result["labels"].tolist() == list(expected)
    np.testing.assert_allclose(result["boxes"], list(expected.values()), atol=1e-4)


@pytest.mark.parametrize("transform", [ShearEvents(), RollEvents()])
def test_transforms_without_support_for_boxes_refuse_them(make_events, transform):
    with pytest.raises(ValueError, match="changes positions but not boxes"):
        transform(sample(make_events, boxes=np.zeros((1, 4)), labels=np.zeros(1)), np.random.default_rng(0))


def test_one_of_takes_each_as_often_and_none_too(make_events):
    one = OneOf([dict(type="FlipEvents", p=1.0), dict(type="DropEvents")])
    given, kinds = sample(make_events), []
    for seed in range(300):
        found = one(given, np.random.default_rng(seed))["events"]
        kinds.append("same" if found is given["events"] else "flip" if len(found) == 400 else "drop")
    assert {k: kinds.count(k) for k in set(kinds)} == pytest.approx(dict(same=100, flip=100, drop=100), abs=25)


def test_without_a_token_or_a_box_the_sample_stays_as_it_was(make_events):
    rng = np.random.default_rng(1)
    pack = PackSpikes(threshold=7, refractory=0, patch=8, bins=2)
    given = sample(make_events, 300)
    emptied = given | dict(events=Events.none(24, 32), before=given)
    assert len(pack(emptied, rng)["inputs"]["events"]) == len(pack(given, rng)["inputs"]["events"]) > 0
    assert set(pack(given, rng)["data_sample"]) == {"label"}

    class Takes:
        def __call__(self, sample, rng):
            return sample | dict(boxes=np.zeros((0, 4)))

    one = OneOf([])
    one.transforms = [Takes()] * 50
    boxed = sample(make_events, boxes=np.ones((2, 4)), labels=np.zeros(2))
    assert one(boxed, rng) is boxed


def test_the_last_events_before_a_moment(make_events):
    given = sample(make_events) | dict(start=1000)
    events: Any = given["events"]
    rng = np.random.default_rng(0)
    found = LastEvents(30)(given, rng)
    assert rows(found["events"]) == rows(events)[-30:]
    assert (found["start"], found["end"]) == (int(events.t[-30]), 200_000)
    found = LastEvents(30, until=0.1)(given, rng)
    before = [row for row in rows(events) if 1000 <= row[2] <= 101_000]
    assert rows(found["events"]) == before[-30:]
    assert (found["start"], found["end"]) == (before[-30][2], 101_000)
    assert len(LastEvents()(given, rng)["events"]) == 400
    for late in (0.3, -0.1):
        with pytest.raises(
            DataError, match=f"until must be a time within this recording, which lasts 0.199 s, got {late} s"
        ):
            LastEvents(30, until=late)(given, rng)
    nothing = LastEvents(5)(given | dict(events=events.take(slice(0))), rng)
    assert (len(nothing["events"]), nothing["start"], nothing["end"]) == (0, 200_000, 200_000)


def test_an_event_at_the_moment_itself_belongs_to_the_last_events():
    t = np.array([10, 20, 30])
    given = dict(events=Events.from_arrays(t, t, t, 0 * t, 32, 32), start=0, end=30)
    assert LastEvents(5, until=20e-6)(given, np.random.default_rng(0))["events"].t.tolist() == [10, 20]


@pytest.mark.parametrize("kind", [PackFrames, PackVoxels])
def test_windows_of_ages_end_at_the_end(kind):
    t = np.arange(0, 100_000, 500)
    events = Events(np.zeros(200, np.int16), np.zeros(200, np.int16), t, np.zeros(200, bool), 16, 16)
    packed = kind(window=30_000, reference="end")(dict(events=events, start=0, end=100_000), np.random.default_rng(0))
    ages, *_ = unpack(packed["inputs"]["events"])
    assert sorted(ages.tolist()) == [0, 29_999, 59_999, 89_999]


def test_so_many_bins_that_no_table_holds_them_are_refused():
    with pytest.raises(ValueError, match="bins must be at most 22"):
        TRANSFORMS.create(dict(type="PackSpikes", patch=4, bins=32))


def test_recordings_without_boxes_have_no_truth():
    events = Events.from_arrays(np.arange(300) % 300, np.arange(300) % 200, np.arange(300), np.ones(300), 240, 304)
    sample = recording_sample(events, "mine.raw")
    for transform in (dict(type="PackFrames", reference="end"), dict(type="PackEventBoxes")):
        sample = TRANSFORMS.create(transform)(sample, np.random.default_rng(0))
    assert "truth" not in sample["data_sample"]
