"""Prophesee's protocol: which boxes count."""

import numpy as np
import pytest
import torch

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.registry import METRICS
from ndformer.modalities.events.datasets.gen1.boxes import large


def test_small_boxes_do_not_count():
    size = np.array([[30.0, 30], [9, 60], [20, 22], [10, 40], [18, 24], [40, 40]])
    assert large(size).tolist() == [True, False, False, True, True, True]
    assert large(size, 20.0, 60.0).tolist() == [False] * 6


def moment(name, truth, predicted=(), scores=()):
    truth, predicted = (torch.tensor(part, dtype=torch.float64).reshape(-1, 4) for part in (truth, predicted))
    labels = lambda boxes: torch.zeros(len(boxes), dtype=torch.int64)
    sample = dict(image_id=name, truth=dict(boxes=truth, labels=labels(truth)))
    return Boxes(sample=sample, boxes=predicted, labels=labels(predicted), scores=torch.tensor(scores))


def mean_precision(*moments):
    metric = METRICS.create(dict(type="Gen1Metric"))
    metric.process({}, moments)
    return metric.compute_metrics(metric.results)["mAP"]


def test_small_boxes_count_on_neither_side_of_a_labeled_moment():
    box, small = (0, 0, 40, 40), (0, 0, 5, 50)
    found = moment("a[600000]", [box, small], [small, box], [0.9, 0.5])
    assert mean_precision(found) == pytest.approx(1)
    assert mean_precision(found, moment("a[700000]", [box])) == pytest.approx(51 / 101)
    assert mean_precision(moment("a[600000]", [box])) == 0
    assert mean_precision(moment("a[600000]", [small], [box], [0.5])) == -1  # nothing there counts
