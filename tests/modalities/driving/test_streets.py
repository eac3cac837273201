"""Generated streets: no two objects overlap during a drive."""

import numpy as np
import pytest

from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.formats.solids import corners, overlapping
from ndformer.modalities.driving.stand_ins.streets import GROUPS, LANE, street

SECONDS = 1.5  # of a drive of four moments
CAR = np.array([0.0, 0, 0.8, 1.9, 4.5, 1.6, 0])  # that carries the sensors, somewhere along y = 0


@pytest.mark.parametrize("seed", range(6))
def test_no_two_objects_are_in_one_place(seed):
    around = street(np.random.default_rng(seed), SECONDS)
    assert len(around.names) >= 15
    for time in np.linspace(0, SECONDS, 7):
        cars = CAR + [[x, 0, 0, 0, 0, 0, 0] for x in (-15.0, 0.0, 15.0)]
        boxes = np.array([*around.moved_boxes(time)[:, :7], *cars])
        assert overlapping(boxes, boxes).sum() == len(boxes), time  # each with itself alone


def test_a_lorry_fits_its_lane():
    """With all corners during the whole drive; and there are lorries in each lane."""
    widest, lanes = 0.0, set()
    for seed in range(40):
        around = street(np.random.default_rng(seed), SECONDS)
        lorry = [name in GROUPS[1] for name in around.names]
        middle = np.round(around.boxes[: len(lorry)][lorry, 1] / LANE) * LANE
        for time in (0, SECONDS):
            boxes = around.moved_boxes(time)[: len(lorry)][lorry]
            away = np.abs(corners(boxes)[..., 1] - middle[:, None])
            assert (away < LANE / 2).all()
            widest = max(widest, float(away.max(initial=0)))
        lanes |= set(middle.tolist())
    assert len(lanes) == 4
    assert widest > 0.45 * LANE


def test_each_class_looks_like_another_one_to_a_lidar():
    names = [name for group in GROUPS for name in group]
    assert sorted(names) == sorted(CLASSES)
    assert all(len(group) > 1 for group in GROUPS)
