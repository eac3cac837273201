"""mIoU from one confusion matrix: its definition pixel by pixel and point by point, and what is not there."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.answers.pixels import Cells, Pixels
from ndformer.framework.errors import DataError
from ndformer.framework.registry import METRICS


def measured(pairs, classes, **options):
    metric = METRICS.create(dict(type="MeanIoU", **options))
    metric.process({}, [Pixels(sample=dict(truth=t), predicted=torch.as_tensor(p), classes=classes) for t, p in pairs])
    return metric, metric.compute_metrics(metric.results)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.sampled_from(["skip", "zero"]))
def test_the_numbers_are_their_definitions(seed, classes, samples, absent):
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(samples):
        shape = tuple(rng.integers(1, 6, 2))
        truth = rng.integers(0, classes, shape)
        truth[rng.random(shape) < 0.2] = -1
        truth.flat[0] = classes - 1  # one is known at least
        pairs.append((truth, rng.integers(0, classes, shape).astype(np.uint8)))
    _, values = measured(pairs, classes, absent=absent)
    known = [(t, p) for truth, predicted in pairs for t, p in zip(truth.flat, predicted.flat) if t >= 0]
    ious, recalls, never = [], [], [0.0] if absent == "zero" else []
    for k in range(classes):
        both = sum(t == k and p == k for t, p in known)
        either = sum(t == k or p == k for t, p in known)
        there = sum(t == k for t, _ in known)
        ious += [both / either] if either else never
        recalls += [both / there] if there else never
    mean = lambda some: sum(some) / len(some)
    assert values["mIoU"] == pytest.approx(mean(ious), abs=1e-12)
    assert values["mean_accuracy"] == pytest.approx(mean(recalls), abs=1e-12)
    assert values["accuracy"] == pytest.approx(mean([t == p for t, p in known]), abs=1e-12)


def test_an_accuracy_that_a_constant_reaches_is_remarked():
    truth = np.array([0, 0, 0, 1, -1])
    constant, worse, better = ([0, 0, 0, 0, 1], [1, 0, 0, 1, 0], [0, 0, 0, 1, 0])
    expected = "accuracy 0.7500 is not above 0.7500, which always answering the most frequent class reaches"
    assert measured([(truth, constant)], 2)[0].remark.startswith(expected)
    assert measured([(truth, worse)], 2)[0].remark is not None
    assert measured([(truth, better)], 2)[0].remark is None
    assert measured([(truth[:3], [0, 0, 0])], 2)[0].remark is None, "there is one class"


def test_points_and_other_shapes_are_counted_alike():
    points, labels = torch.tensor([0, 1, 1, 2]).short(), np.array([0, 1, 2, -1])
    metric, values = measured([(labels, points)], 3)
    assert metric.confusion.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert values["accuracy"] == pytest.approx(2 / 3)
    assert metric.main in values


def test_all_scenes_are_measured_together():
    rng = np.random.default_rng(0)
    truth, found = rng.integers(-1, 4, 60), rng.integers(0, 5, 60)
    parts = [(truth[:13], found[:13]), (truth[13:], found[13:])]
    assert measured(parts, 6)[1] == measured([(truth, found)], 6)[1]


@pytest.mark.parametrize("absent, there", [("skip", "-"), ("zero", "0.0")])
def test_the_table_of_classes(absent, there):
    metric, _ = measured([(np.array([0, 0, 1]), np.array([0, 1, 1]))], 3, absent=absent)
    rows = [line.split() for line in metric.views(None, ["sky", "sea", "fog"]).splitlines()]
    assert rows == [
        ["class", "IoU", "accuracy", "share"], ["sky", "50.0", "50.0", "66.7"], ["sea", "50.0", "100.0", "33.3"],
        ["fog", there, there, "0.0"],
    ]  # fmt: skip


def test_samples_that_cannot_be_measured_are_errors():
    metric = METRICS.create(dict(type="MeanIoU"))
    with pytest.raises(DataError, match="room has no labels"):
        metric.process({}, [Pixels(sample=dict(path="room"), predicted=torch.zeros(2), classes=3)])
    with pytest.raises(DataError, match="a sample has the label 3, but there are 3 classes, 0 to 2"):
        measured([(np.array([3]), np.array([0]))], 3)
    with pytest.raises(DataError, match="expected labels in this set"):
        measured([(np.full((2, 2), -1), np.zeros((2, 2), int))], 2)


@pytest.mark.parametrize("predicted", [3, -1])
def test_a_prediction_beyond_the_classes_is_no_other_class(predicted):
    with pytest.raises(ValueError, match=f"predicted class {predicted} for a sample, but there are 3"):
        measured([(np.array([0, 1]), np.array([0, predicted]))], 3)


def test_a_class_named_path_has_a_column_of_its_own_and_tasks_have_their_classes():
    answer = Pixels(sample=dict(path="a.png"), predicted=torch.tensor([[0, 1], [1, 1]]), classes=2)
    assert answer.rows(["wall", "path"]) == [{"path": "a.png", "wall": 0.25, "class path": 0.75}]
    assert Pixels.header(["wall", "path"]) == ["path", "wall", "class path"]
    answer.task = "image"
    assert answer.rows(["points: desk", "image: sky", "image: road"]) == [{"path": "a.png", "sky": 0.25, "road": 0.75}]


def test_grids_without_a_known_cell_are_not_solved():
    metric = METRICS.create(dict(type="SolveRate"))
    unknown, wrong = torch.full((3, 3), -1), torch.ones(3, 3, dtype=torch.long)
    nothing = torch.zeros(3, 3, dtype=torch.int16)
    metric.process({}, [Cells(sample=dict(truth=truth), predicted=nothing, classes=14) for truth in (unknown, wrong)])
    assert metric.compute_metrics(metric.results)["solve_rate"] == 0.0
    with pytest.raises(DataError, match="expected known cells in this set"):
        metric.compute_metrics([(0, 0)])
