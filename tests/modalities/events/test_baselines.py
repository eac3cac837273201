"""Baselines of event sets see what is there to be seen, and no motion."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.stand_ins.baselines import GRID, amounts, baselines, picture, places


def test_features_as_by_hand():
    events = Events.from_arrays([0, 63, 63, 2], [0, 31, 31, 0], [1, 2, 3, 4], [1, 0, 0, 1], 32, 64)
    assert amounts(events).tolist() == [np.log1p(4), 0.5]
    assert places(events)[2:].tolist() == [63, 0, 31, 0, 1, 1, 0, 0]
    wanted = np.zeros((2, GRID, GRID))
    wanted[0, GRID - 1, GRID - 1], wanted[1, 0, 0] = np.sqrt(0.5), np.sqrt(0.5)
    assert np.allclose(picture(events), wanted.ravel())
    none = Events.none(32, 64)
    assert np.isfinite(np.concatenate([amounts(none), places(none), picture(none)])).all()


def recordings(count):
    """Classes 0 and 1 have other places; 2 and 3 the same ones, one of them backwards."""
    records = []
    for n in range(count):
        label = n % 4
        rng = np.random.default_rng((count, n))
        along = np.sort(rng.uniform(0, 31, 300)).astype(int)
        x = along if label < 3 else along[::-1]
        y = np.full(300, (4, 24, 14, 14)[label]) + rng.integers(0, 3, 300)
        events = Events.from_arrays(x, y, np.arange(300) * 1000, rng.integers(0, 2, 300), 32, 32)
        records.append(dict(events=events, start=0, end=300_000))
    labels = np.arange(count) % 4
    return cast(Any, SimpleNamespace(records=records, read=lambda record: record, labels=labels))


def test_baselines_distinguish_places_but_not_motion():
    found = dict(baselines(recordings(80), recordings(120)))
    assert found["most frequent class"] == 0.25
    assert 0.6 < found["picture of all"] < 0.9  # 0 and 1, and half of 2 and 3
    assert found["places of events"] == pytest.approx(0.75, abs=0.15)
    assert list(found)[0] == "event count and polarity"
