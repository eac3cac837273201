"""Scores that are not finite are measured by nobody, and who cannot tell classes apart is not right by chance."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.answers.label import Label
from ndformer.framework.errors import BadNumbers, ConfigError, DataError
from ndformer.framework.evaluation.metric import Metric, check_value_name
from ndformer.framework.registry import HEADS, METRICS
from ndformer.framework.tokens import TokenSet, Where

NAN, INF = float("nan"), float("inf")


def label(scores, right=0, **sample):
    return Label(sample=dict(label=right, path="a.png", task="x", **sample), scores=torch.tensor(scores), task="x")


def boxes(scores, corners=(0.0, 0, 4, 4)):
    truth = dict(boxes=np.array([[0.0, 0, 4, 4]]), labels=np.array([0]))
    found = dict(boxes=torch.tensor([corners]), labels=torch.tensor([0]), scores=torch.tensor(scores))
    return Boxes(sample=dict(path="a.png", image_id=0, truth=truth), task="x", **found)


@pytest.mark.parametrize(
    "metric, good, bad",
    [
        (dict(type="Accuracy"), label([0.9, 0.1]), [label([NAN, 0.1]), label([0.9, INF]), label([NAN, NAN])]),
        (dict(type="Accuracy", average_by="path"), label([0.9, 0.1]), [label([0.9, NAN])]),
        (dict(type="CocoMetric"), boxes([0.5]), [boxes([NAN]), boxes([0.5], (0.0, NAN, 4, 4))]),
        (dict(type="Gen1Metric", least_side=1), boxes([0.5]), [boxes([INF])]),
        (dict(type="PerTask", metric=dict(type="Accuracy")), label([0.9, 0.1]), [label([NAN, 0.1])]),
    ],
)
def test_a_metric_refuses_answers_that_are_not_finite(metric, good, bad):
    made: Metric = METRICS.create(metric)
    made.take({}, [good])
    for answer in bad:
        with pytest.raises(BadNumbers, match=f"{metric['type']} cannot measure a.png: .* not finite"):
            made.take({}, [good, answer])


def accuracy(*answers):
    metric = METRICS.create(dict(type="Accuracy"))
    metric.take({}, answers)
    return metric.compute_metrics(metric.results)


def test_answers_without_truth_are_refused():
    with pytest.raises(DataError, match="a.png has no label"):
        accuracy(label([0.9, 0.1], right=-1))
    metric = METRICS.create(dict(type="CocoMetric"))
    answer = replace(boxes([0.5]), sample=dict(path="a.png", image_id=0))
    with pytest.raises(DataError, match="a.png has no boxes to compare with"):
        metric.take({}, [answer])


def test_the_mean_over_tasks_is_without_those_that_have_no_such_object():
    """COCO's -1 for no objects halved the mean."""
    metric = METRICS.create(dict(type="PerTask", metric=dict(type="CocoMetric")))
    small, large = boxes([0.5]), replace(boxes([0.5], (0.0, 0, 200, 200)), task="y")
    large.sample["truth"]["boxes"] = np.array([[0.0, 0, 200, 200]])
    metric.take({}, [small, large])
    values = metric.compute_metrics(metric.results)
    assert values["x/mAPl"] == -1
    assert values["mAPl"] == values["y/mAPl"] == pytest.approx(1)
    assert values["mAPm"] == -1


def test_metrics_with_the_same_names_and_those_of_the_log_are_refused():
    with pytest.raises(ConfigError, match="two of them measure 'accuracy'"):
        check_value_name("accuracy", ["accuracy"], "Accuracy")
    with pytest.raises(ConfigError, match="Mine: 'loss' is a column of the log"):
        check_value_name("loss", [], "Mine")


def test_top5_is_the_share_of_labels_among_the_five_best_scores():
    descending = [float(-i) for i in range(10)]
    assert accuracy(*(label(descending, i) for i in range(10)))["top5"] == 0.5


def test_mean_accuracy_is_the_mean_recall_of_classes_with_samples():
    truth, predicted = [0, 0, 0, 0, 1, 3], [0, 0, 0, 1, 1, 0]  # class 2 has no sample
    metric = METRICS.create(dict(type="Accuracy"))
    metric.take({}, [label([float(k == p) for k in range(4)], t) for t, p in zip(truth, predicted)])
    values = metric.compute_metrics(metric.results)
    assert values == pytest.approx(dict(accuracy=4 / 6, mean_accuracy=(3 / 4 + 1 + 0) / 3))
    assert metric.confusion.tolist() == [[3, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]


def test_a_tie_is_not_won():
    flat = [0.1] * 10
    assert accuracy(*(label(flat, i) for i in range(10))) == dict(accuracy=0.0, mean_accuracy=0.0, top5=0.0)
    high = [0.2] * 5 + [0.0] * 5
    assert accuracy(*(label(high, i) for i in range(5))) == dict(accuracy=0.0, mean_accuracy=0.0, top5=1.0)
    sure = [0.5, 0.3, *[0.025] * 8]
    assert accuracy(label(sure, 0), label(sure, 1))["accuracy"] == 0.5
    assert accuracy(label([0.5, 0.5], 0), label([0.5, 0.5], 1))["accuracy"] == 0.0


def test_an_accuracy_at_chance_is_remarked():
    """The most frequent class has 6 of 10 samples: 6 or 9 correct ones are within two standard errors, 10 are not."""

    def remark(correct):
        metric = METRICS.create(dict(type="Accuracy"))
        truth = [0] * 6 + [1] * 4
        answers = [label([1.0, 0.0] if (t == 0) == (i < correct) else [0.0, 1.0], t) for i, t in enumerate(truth)]
        metric.take({}, answers)
        metric.compute_metrics(metric.results)
        return metric.remark

    assert remark(6).startswith("accuracy 0.6000 is not clearly above 0.6000, which always answering the most frequent")
    assert remark(9) is not None
    assert remark(10) is None


def test_a_nan_score_is_never_correct():
    metric = METRICS.create(dict(type="Accuracy"))
    metric.process({}, [label([NAN] * 10, 0), label([NAN, 0.5, *[0.0] * 8], 1), label([NAN, 0.5, *[0.0] * 8], 0)])
    assert metric.compute_metrics(metric.results) == dict(accuracy=0.0, mean_accuracy=0.0, top5=pytest.approx(1 / 3))


NECK = dict(type="SimpleFeaturePyramid", width=8)


@pytest.mark.parametrize(
    "head",
    [
        dict(type="Segmenter", classes=3, neck=NECK),
        dict(type="Detector", classes=3, neck=NECK),
        dict(type="TokenSegmenter", classes=3),
    ],
)
def test_heads_that_choose_the_largest_score_do_not_choose_nan(head):
    """Their answers are whole numbers, or what is left above a score: nothing could be seen of it there."""
    torch.manual_seed(0)
    made = HEADS.create(head, dim=16).eval()
    positions = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij"), -1).reshape(1, 16, 2)
    where = Where(positions, grid=(4, 4))
    sample = dict(path="a.png", frame=np.array([1.0, 1, 0, 0]), size=(64, 64), labels=torch.zeros(16))
    assert len(made.predict(TokenSet(torch.randn(1, 16, 16), where), [sample])) == 1
    with torch.no_grad():
        next(iter(made.parameters())).fill_(NAN)
    for spoiled in (torch.full((1, 16, 16), NAN), torch.randn(1, 16, 16)):
        with pytest.raises(BadNumbers, match="the model's output for a.png is not finite"):
            made.predict(TokenSet(spoiled, where), [sample])
