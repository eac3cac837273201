"""mIoU from one confusion matrix: its definition pixel by pixel, and what is not there does not count."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.registry import METRICS


def measured(pairs, classes, **options):
    metric = METRICS.create(dict(type="Segmentation", **options))
    metric.process({}, [dict(truth=t, predicted=p, classes=classes) for t, p in pairs])
    return metric, metric.compute_metrics(metric.results)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3))
def test_the_numbers_are_their_definitions(seed, classes, samples):
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(samples):
        shape = tuple(rng.integers(1, 6, 2))
        truth = rng.integers(0, classes, shape).astype(np.uint8)
        truth[rng.random(shape) < 0.2] = 255
        pairs.append((truth, rng.integers(0, classes, shape).astype(np.uint8)))
    _, values = measured(pairs, classes)
    known = [(t, p) for truth, predicted in pairs for t, p in zip(truth.flat, predicted.flat) if t != 255]
    ious, recalls = [], []
    for k in range(classes):
        both = sum(t == k and p == k for t, p in known)
        either = sum(t == k or p == k for t, p in known)
        there = sum(t == k for t, _ in known)
        ious += [both / either] if either else []
        recalls += [both / there] if there else []
    mean = lambda some: sum(some) / len(some) if some else 0.0
    assert values["mIoU"] == pytest.approx(mean(ious), abs=1e-12)
    assert values["mAcc"] == pytest.approx(mean(recalls), abs=1e-12)
    assert values["allAcc"] == pytest.approx(mean([t == p for t, p in known]), abs=1e-12)


def test_points_and_other_shapes_are_counted_alike():
    points, labels = np.array([0, 1, 1, 2]), np.array([0, 1, 2, -1])
    metric, values = measured([(labels, points)], 3, ignored=-1)
    assert metric.confusion.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert values["allAcc"] == pytest.approx(2 / 3)
    assert metric.main in values


def test_nothing_known_is_worth_0():
    assert measured([(np.full((2, 2), 255), np.zeros((2, 2), int))], 2)[1] == dict(mIoU=0.0, mAcc=0.0, allAcc=0.0)


def test_the_table_of_classes():
    metric, _ = measured([(np.array([0, 0, 1]), np.array([0, 1, 1]))], 3)
    rows = [line.split() for line in metric.views(None, ["sky", "sea", "fog"]).splitlines()]
    assert rows == [
        ["class", "IoU", "Acc", "share"], ["sky", "50.0", "50.0", "66.7"], ["sea", "50.0", "100.0", "33.3"],
        ["fog", "-", "-", "0.0"],
    ]  # fmt: skip
