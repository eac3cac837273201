"""CocoMetric: from samples to numbers, tables, pictures and COCO's list of detections."""

import json

import numpy as np
import pytest
import torch

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco.average import evaluate
from ndformer.framework.evaluation.coco.files import detections_from, truth_from
from ndformer.framework.evaluation.coco.views import class_numbers, confusion, table
from ndformer.framework.registry import METRICS

pytestmark = pytest.mark.pictures


def box(*corners):
    return torch.tensor(corners, dtype=torch.float32).reshape(-1, 4)


def sample(image_id, truth, labels, found=(), found_labels=(), scores=(), **more):
    there = dict(boxes=box(*truth), labels=torch.tensor(labels, dtype=torch.int64), **more)
    labels = torch.tensor(found_labels, dtype=torch.int64)
    about = dict(image_id=image_id, truth=there)
    return Boxes(sample=about, boxes=box(*found), labels=labels, scores=torch.tensor(scores))


SAMPLES = [
    sample(7, [(0, 0, 40, 40), (50, 50, 60, 60)], [0, 2], [(0, 0, 40, 37), (50, 50, 60, 61)], [0, 1], [0.9, 0.8]),
    sample(3, [], [], [(5, 5, 9, 9)], [0], [0.4]),
    sample(5, [(0, 0, 10, 10)], [0]),
]


def measured(samples):
    metric = METRICS.create(dict(type="CocoMetric"))
    metric.process({}, samples)
    return metric, metric.compute_metrics(metric.results)


def test_detections_count_by_class_and_size():
    _, values = measured(SAMPLES)
    names = "mAP mAP50 mAP75 mAPs mAPm mAPl AR1 AR10 AR100 ARs ARm ARl F1 F1_threshold"
    assert list(values) == names.split()
    half = 51 / 101  # class 0: one of two found, above everything else; class 2: nothing
    assert values["mAP50"] == pytest.approx(half / 2)
    assert values["mAPl"] == -1
    assert METRICS.get("CocoMetric").main in values


def test_a_detector_that_has_learned_nothing_is_remarked():
    half = [(0, 0, 40, 19)]  # IoU 0.475
    assert measured([sample(1, [(0, 0, 40, 40)], [0], half, [0], [0.9])])[0].remark.startswith("no detection overlaps")
    assert measured([sample(1, [(0, 0, 40, 40)], [0])])[0].remark.endswith("with another learning rate")
    assert measured(SAMPLES)[0].remark is None
    assert measured([SAMPLES[1]])[0].remark is None, "no objects"


def test_numbers_do_not_depend_on_the_order_of_images():
    assert measured(SAMPLES)[1] == measured(SAMPLES[::-1])[1]


def test_crowds_and_mask_areas_come_from_the_sample():
    crowd = [sample(1, [(0, 0, 40, 40)], [0], crowd=torch.tensor([True]))]
    assert measured(crowd)[1]["mAP"] == -1
    small = measured([sample(1, [(0, 0, 40, 40)], [0], area=torch.tensor([900.0]))])[1]
    assert small["mAPs"] == 0
    assert small["mAPm"] == -1


def test_an_empty_set_of_predictions_is_worth_0_and_an_empty_set_does_not_crash():
    assert measured([sample(1, [(0, 0, 40, 40)], [0])])[1]["mAP"] == 0
    assert measured([sample(1, [], [])])[1]["mAP"] == -1
    assert measured([])[1]["mAP"] == -1


def test_an_image_evaluated_twice_is_refused():
    with pytest.raises(DataError, match="image 7 was evaluated twice"):
        measured([SAMPLES[0], SAMPLES[0]])


@pytest.mark.parametrize(
    "samples, message",
    [
        ([sample(7, [(0, 0, 9, 9)], [0], [(0, 0, 9, 9)], [0], [float("nan")])], "got NaN in image 7"),
        ([sample(7, [(0, 0, 9, 9)], [0], [(0, 0, 9, 9)], [-1], [0.5])], "labels of the detections count from 0, got"),
        ([sample(7, [(0, 0, 9, 9)], [-1])], "labels of the truth count from 0, got -1 in image 7"),
        ([sample(7, [], []), sample("b", [], [])], "image_id is of one type in a set, got int and str"),
    ],
)
def test_nan_scores_negative_labels_and_mixed_ids_are_errors(samples, message):
    """Issue 44.21: a NaN score counted as a find (mAP 1.0); label -1 and mixed ids gave numpy's errors."""
    with pytest.raises(DataError, match=message):
        measured(samples)


def test_pictures_and_the_table_of_classes(tmp_path):
    metric, _ = measured(SAMPLES)
    text = metric.views(tmp_path / "views", ["cat", "dog", "cow"])
    assert {path.name for path in (tmp_path / "views").iterdir()} == {"pr_curves.png", "confusion_matrix.png"}
    rows = [line.split() for line in text.splitlines()]
    assert rows[0][:3] == ["class", "AP", "AP50"]
    assert rows[1][:3] == ["cat", "45.4", "50.5"]  # all but IoU 0.95
    assert rows[2][:3] == ["dog", "-", "-"]
    assert rows[3][:3] == ["cow", "0.0", "0.0"]


def test_the_confusion_matrix_counts_each_truth_and_each_detection_once():
    metric, _ = measured(SAMPLES)
    expected = np.zeros((4, 4), dtype=int)
    expected[0, 0] = 1  # found
    expected[2, 1] = 1  # taken for another class
    expected[3, 0] = 1  # nothing there
    expected[0, 3] = 1  # missed
    assert np.array_equal(confusion(metric.truth, metric.detections, 3), expected)


def test_the_confusion_matrix_leaves_out_crowds_and_low_scores():
    truth, found = [(0, 0, 90, 90), (100, 0, 110, 10)], [(5, 5, 9, 9), (100, 0, 110, 10)]
    for score, expected in ((0.2, [[0, 1], [0, 0]]), (0.4, [[1, 0], [0, 0]])):
        metric, _ = measured([sample(1, truth, [0, 0], found, [0, 0], [0.9, score], crowd=torch.tensor([True, False]))])
        assert confusion(metric.truth, metric.detections, 1).tolist() == expected


def test_exported_detections_read_back_to_the_same_numbers(tmp_path):
    metric, values = measured(SAMPLES)
    metric.export(tmp_path / "out" / "found.json", categories=[1, 4, 90])
    found = json.loads((tmp_path / "out" / "found.json").read_text())
    assert found[0] == dict(image_id=3, category_id=1, bbox=[5.0, 5.0, 4.0, 4.0], score=pytest.approx(0.4))
    content = dict(
        images=[dict(id=i) for i in (3, 5, 7)],
        categories=[dict(id=i) for i in (90, 1, 4)],
        annotations=[
            dict(image_id=7, category_id=1, bbox=[0, 0, 40, 40]),
            dict(image_id=7, category_id=90, bbox=[50, 50, 10, 10]),
            dict(image_id=5, category_id=1, bbox=[0, 0, 10, 10]),
        ],
    )
    truth = truth_from(content)
    assert truth.classes == ["1", "4", "90"]
    averages = evaluate(truth.boxes, detections_from(found, truth), 3, 3)
    assert list(averages.numbers().values()) == list(values.values())[:12]
    assert "4 " in table(class_numbers(averages, truth.classes))


def test_files_of_truth_have_crowds_and_areas():
    annotations = [
        dict(image_id=3, category_id=1, bbox=[0, 0, 4, 5]),
        dict(image_id=3, category_id=1, bbox=[0, 0, 4, 5], area=7.5, iscrowd=1),
    ]
    truth = truth_from(dict(images=[dict(id=3)], categories=[dict(id=1)], annotations=annotations)).boxes
    assert (truth.area.tolist(), truth.crowd.tolist()) == ([20, 7.5], [False, True])


def test_the_best_f1_and_its_threshold_by_trying_all_thresholds():
    """The other way: for each score, detections from it on alone, matched anew, are counted by the confusion matrix's
    rule within classes."""
    rng = np.random.default_rng(0)
    for case in range(20):
        samples = []
        for i in range(4):
            low = rng.integers(0, 60, (5, 2)) * 1.0
            boxes = np.concatenate([low, low + rng.integers(8, 30, (5, 2))], 1)
            near = np.concatenate([boxes + rng.normal(0, 2, boxes.shape), boxes[rng.permutation(5)[:3]] + 5])
            labels, seen = rng.integers(0, 3, 5), rng.integers(0, 3, 8)
            seen[:4] = labels[:4]
            scores = rng.choice(np.linspace(0.1, 0.9, 6), 8).tolist()  # with ties
            crowd = torch.tensor(rng.random(5) < 0.2)
            boxes, labels, near, seen = (array.tolist() for array in (boxes, labels, near, seen))
            samples.append(sample(i, boxes, labels, near, seen, scores, crowd=crowd))
        _, values = measured(samples)
        tried = {}
        for least in sorted({score for one in samples for score in one.scores.tolist()}):
            verdicts = [one.compared(least) for one in samples]
            truths = sum(verdict.object_count or 0 for verdict in verdicts)
            hits = truths - sum(len(verdict.missed) for verdict in verdicts)
            false = sum(int((~verdict.right).sum()) for verdict in verdicts)
            tried[least] = 2 * hits / (hits + false + truths)
        assert values["F1"] == pytest.approx(max(tried.values())), case
        assert tried[values["F1_threshold"]] == pytest.approx(max(tried.values())), case


def test_f1_of_nothing_is_minus_one():
    for one in (sample(1, [], [], [(0, 0, 9, 9)], [0], [0.5]), sample(1, [(0, 0, 9, 9)], [0])):
        _, values = measured([one])
        assert (values["F1"], values["F1_threshold"]) == (-1, -1)
