"""Prophesee's protocol: which boxes count, and which detections belong to which frame."""

import numpy as np
import pytest
import torch

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.registry import METRICS
from ndformer.modalities.events.datasets.gen1.boxes import large
from ndformer.modalities.events.datasets.gen1.metric import frames


def test_small_boxes_and_the_first_half_second_do_not_count():
    size = np.array([[30.0, 30], [9, 60], [20, 22], [10, 40], [18, 24], [40, 40]])
    assert large(size).tolist() == [True, False, False, True, True, True]
    assert large(size, 20.0, 60.0).tolist() == [False] * 6
    box = [0, 0, 40, 40]
    assert value(recording("a", [[500_000, *box]], [[500_000, *box, 0.9]])) == -1
    assert value(recording("a", [[500_001, *box]], [[500_001, *box, 0.9]])) == pytest.approx(1)


def test_a_detection_belongs_to_every_frame_within_50_ms():
    truth = np.array([900_000, 800_000, 800_000, 840_000])
    found = np.array([950_000, 749_999, 750_000, 850_000, 950_001])
    expected = [(800_000, [1, 2], [2, 3]), (840_000, [3], [3]), (900_000, [0], [0, 3])]
    assert [(time, t.tolist(), d.tolist()) for time, t, d in frames(truth, found)] == expected


def said(sample, *arrays):
    boxes, labels, scores, *times = (torch.from_numpy(np.array(array)) for array in arrays)
    return Boxes(sample=sample, boxes=boxes, labels=labels, scores=scores, times=times[0] if times else None)


def recording(image_id, truth, found):
    """From rows of time, x1, y1, x2, y2 (and score)."""
    truth, found = np.reshape(truth, (-1, 5)), np.reshape(found, (-1, 6))
    zeros = [np.zeros(len(rows), dtype=int) for rows in (truth, found)]
    there = dict(boxes=truth[:, 1:5], labels=zeros[0], times=truth[:, 0].astype(np.int64))
    sample, boxes, labels, scores = dict(image_id=image_id, truth=there), found[:, 1:5], zeros[1], found[:, 5]
    times = found[:, 0].astype(np.int64)
    return said(sample, boxes, labels, scores, times)


def value(*recordings):
    metric = METRICS.create(dict(type="Gen1Metric"))
    metric.process({}, recordings)
    return metric.compute_metrics(metric.results)["mAP"]


def test_rules_hold_on_both_sides():
    box = [0, 0, 40, 40]
    truth = [[600_000, *box], [300_000, *box], [600_000, 0, 0, 5, 50]]
    found = [[610_000, *box, 0.5], [300_000, *box, 0.9], [600_000, 100, 100, 105, 150, 0.9], [900_000, *box, 0.9]]
    assert value(recording("a", truth, found)) == pytest.approx(1)
    assert value(recording("a", truth, [])) == 0
    assert value(recording("a", [], found)) == -1  # no frame at all
    missed = recording("b", [[700_000, *box]], [[600_000, *box, 0.9]])
    assert value(recording("a", truth, found), missed) == pytest.approx(51 / 101)


def test_a_labelled_moment_is_a_frame_of_its_own():
    """Without times: small boxes count on neither side, and moments of one recording are kept apart by their names."""
    zeros = lambda boxes: np.zeros(len(boxes), dtype=int)

    def moment(name, truth, found, scores):
        truth, found = (np.reshape(np.array(part, dtype=float), (-1, 4)) for part in (truth, found))
        sample = dict(image_id=name, truth=dict(boxes=truth, labels=zeros(truth)))
        return said(sample, found, zeros(found), scores)

    box, small = (0, 0, 40, 40), (0, 0, 5, 50)
    seen = moment("a[600000]", [box, small], [small, box], [0.9, 0.5])
    assert value(seen) == pytest.approx(1)
    assert value(seen, moment("a[700000]", [box], [], [])) == pytest.approx(51 / 101)
