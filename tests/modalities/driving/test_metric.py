"""nuScenes' metric: equal to a slow reference, and 0 without predictions."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.framework.registry import METRICS
from ndformer.modalities.driving.answer import Boxes3D
from ndformer.modalities.driving.datasets.nuscenes import average, submission
from ndformer.modalities.driving.datasets.nuscenes.metric import measured
from ndformer.modalities.driving.datasets.nuscenes.rules import Boxes, Racks, likely_attributes
from ndformer.modalities.driving.formats import poses
from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CLASSES
from tests.modalities.driving import slow_metric


def random_box(rng, near, name=None):
    """Return a box near another one, often at the same position, or anywhere."""
    name = name or CLASSES[rng.integers(10)]
    free = np.array([*rng.uniform(-52, 52, 2), rng.uniform(-1, 1)])
    center = free if near is None else near["center"] + rng.normal(0, rng.choice([0, 0.4, 1.5]), 3)
    return dict(
        name=name if near is None or rng.random() < 0.2 else near["name"],
        center=center,
        size=rng.uniform(0.5, 5, 3),
        yaw=rng.uniform(-4, 4),
        velocity=rng.normal(0, 3, 2) if rng.random() < 0.8 else np.full(2, np.nan),
        attribute=["", *ATTRIBUTES][rng.integers(9)],
    )


def random_sample(rng, kinds) -> dict[str, Any]:
    truth = []
    for _ in range(rng.integers(0, 12)):
        twin = truth[-1] if truth and rng.random() < 0.2 else None
        truth.append(random_box(rng, twin, kinds[rng.integers(len(kinds))]) | dict(points=int(rng.integers(0, 4))))
    found = []
    for _ in range(rng.integers(0, 16)):
        near = truth[rng.integers(len(truth))] if truth and rng.random() < 0.8 else None
        ties = rng.random() < 0.5
        score = float(rng.choice([0.0, 0.25, 0.5, 0.75])) if ties else float(rng.random())
        found.append(random_box(rng, near) | dict(score=score))
    turn = poses.rotations(rng.normal(size=4))
    cycles = [box["center"] for box in truth if box["name"] in ("bicycle", "motorcycle")][: rng.integers(0, 3)]
    racks = [dict(center=c + rng.normal(0, 1, 3), size=rng.uniform(0.5, 4, 3), rotation=turn) for c in cycles]
    return dict(truth=truth, found=found, racks=racks, ego=rng.normal(0, 3, 3))


def random_set(seed) -> list[dict[str, Any]]:
    """Return up to five samples with some of the classes."""
    rng = np.random.default_rng(seed)
    kinds = [CLASSES[i] for i in rng.permutation(10)[: rng.integers(1, 11)]]
    return [random_sample(rng, kinds) for _ in range(rng.integers(0, 6))]


def as_boxes(samples, part):
    rows = [(i, box) for i, sample in enumerate(samples) for box in sample[part]]
    column = lambda name, wide: np.array([box[name] for _, box in rows], np.float64).reshape(-1, *wide)
    return Boxes(
        np.array([i for i, _ in rows], np.int64),
        np.array([CLASSES.index(box["name"]) for _, box in rows], np.int64),
        column("center", (3,)),
        column("size", (3,)),
        column("yaw", ()),
        column("velocity", (2,)),
        np.array([["", *ATTRIBUTES].index(box["attribute"]) - 1 for _, box in rows], np.int64),
        column("score", ()) if part == "found" else np.zeros(0),
        column("points", ()) if part == "truth" else np.zeros(0),
    )


def as_racks(samples):
    rows = [(i, rack) for i, sample in enumerate(samples) for rack in sample["racks"]]
    parts = ([rack[name] for _, rack in rows] for name in ("center", "size", "rotation"))
    shapes = ((-1, 3), (-1, 3), (-1, 3, 3))
    arrays = (np.array(part, np.float64).reshape(shape) for part, shape in zip(parts, shapes))
    return Racks(np.array([i for i, _ in rows], np.int64), *arrays)


def numbers(samples):
    ego = np.array([sample["ego"] for sample in samples]).reshape(-1, 3)
    return measured(as_boxes(samples, "truth"), as_boxes(samples, "found"), ego, as_racks(samples))


@pytest.mark.parametrize("start", range(0, 100, 20))
def test_equal_to_the_rules_read_one_by_one(start):
    scores = []
    for seed in range(start, start + 20):
        samples = random_set(seed)
        expected, got = slow_metric.measured(samples), numbers(samples)
        values = average.summary(got)
        assert values == pytest.approx(expected, abs=1e-9)
        for name, row in average.class_numbers(got).items():
            averages, errors = slow_metric.of_class(samples, name)
            assert list(row.values())[1:5] == pytest.approx(averages, abs=1e-9)
            plain = [None if math.isnan(error) else error for error in errors.values()]
            assert list(row.values())[5:] == [one if one is None else pytest.approx(one, abs=1e-9) for one in plain]
        scores.append(values["NDS"])
    assert len({round(score, 6) for score in scores}) > 10  # they are of sets that differ


def test_a_perfect_answer_has_1_and_none_at_all_has_0():
    rng = np.random.default_rng(0)
    kinds = {name: [a for a in ATTRIBUTES if a.startswith(s)] for name, s in dict(car="v", pedestrian="p").items()}
    truth = [random_box(rng, None, name) | dict(center=np.array([x, 3.0 * i, 0]), points=5, velocity=np.ones(2))
             | dict(attribute=kinds.get(name, [""])[0])
             for i, name in enumerate(CLASSES) for x in range(-9, 10, 6)]  # fmt: skip
    sample = dict(truth=truth, racks=[], ego=np.array([0, 10, 0]))
    found = [{k: v for k, v in box.items() if k != "points"} | dict(score=0.9) for box in truth]
    perfect = average.summary(numbers([sample | dict(found=found)]))
    # a class without attributes has an error of 1 in them, as the devkit says: six of the eight that count
    assert perfect == pytest.approx(dict(mAP=1, NDS=0.925, mATE=0, mASE=0, mAOE=0, mAVE=0, mAAE=0.75))
    nothing = dict(mAP=0, NDS=0, mATE=1, mASE=1, mAOE=1, mAVE=1, mAAE=1)
    assert average.summary(numbers([sample | dict(found=[])])) == nothing
    assert average.summary(numbers([])) == nothing


def test_answers_in_the_lidar_frame_and_through_a_submission(tmp_path):
    """Samples are transformed to LiDAR frames and back, and exported and read, without a change."""
    samples, tokens = random_set(6) + random_set(7), []
    metric = METRICS.create(dict(type="NuScenes"))
    for i, sample in enumerate(samples):
        rng = np.random.default_rng(i)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = poses.about_z(np.array(rng.uniform(-4, 4))), rng.normal(0, 300, 3)
        back, found = poses.inverse(pose), as_boxes([sample], "found")
        velocity = np.column_stack([np.nan_to_num(found.velocity), np.zeros(len(found))]) @ back[:3, :3].T
        yaw = poses.headings(back[:3, :3] @ poses.about_z(found.yaw))
        boxes = np.column_stack([poses.moved(found.center, back), found.size, yaw, velocity[:, :2]])
        tokens.append(f"{i:032x}")
        about = dict(token=tokens[-1], truth=as_boxes([sample], "truth"), racks=as_racks([sample]), ego=sample["ego"])
        parts: dict[str, Any] = dict(boxes=boxes, labels=found.label, scores=found.score, attributes=found.attribute)
        metric.process({}, [Boxes3D(sample=about | dict(to_global=pose), **parts)])
        for box in sample["found"]:
            box["velocity"] = np.nan_to_num(box["velocity"])
    values = metric.compute_metrics(metric.results[::-1])
    assert values == pytest.approx(slow_metric.measured(samples), abs=1e-9)
    assert values["mAP"] > 0
    path = tmp_path / "new" / "found.json"
    assert metric.export(path, CLASSES)
    ego = np.stack([sample["ego"] for sample in samples])
    again = submission.read_submission(path, tokens)
    read = average.summary(measured(as_boxes(samples, "truth"), again, ego, as_racks(samples)))
    assert read == pytest.approx(values, abs=1e-12)
    assert "construction_vehicle" in metric.views(None, CLASSES)


def test_no_more_than_500_of_a_sample_count_and_attributes_follow_speeds():
    rng = np.random.default_rng(0)
    boxes = torch.from_numpy(np.column_stack([rng.normal(size=(600, 3)), np.ones((600, 6))]))
    scores = torch.arange(600) / 600
    about = dict(token="a", truth=Boxes.none(), racks=Racks.none(), ego=np.zeros(3), to_global=np.eye(4))
    metric = METRICS.create(dict(type="NuScenes"))
    metric.process({}, [Boxes3D(sample=about, boxes=boxes, labels=torch.zeros(600, dtype=torch.long), scores=scores)])
    assert metric.compute_metrics(metric.results)["NDS"] == 0
    assert sorted(metric.predictions.score) == sorted(scores[100:].double().tolist())
    assert {ATTRIBUTES[a] for a in metric.predictions.attribute} == {"vehicle.moving"}
    slow = likely_attributes(np.arange(10), np.full((10, 2), 0.1))
    assert [ATTRIBUTES[a] if a >= 0 else "" for a in slow[[0, 3, 7, 8, 9]]] == [
        "vehicle.parked", "vehicle.stopped", "cycle.without_rider", "pedestrian.standing", "",
    ]  # fmt: skip
    unknown = likely_attributes(np.arange(10), np.full((10, 2), np.nan))
    assert unknown.tolist() == slow.tolist()


def test_samples_without_truth_are_exported_and_not_measured(tmp_path):
    about = dict(token="a", truth=None, racks=None, ego=np.zeros(3), to_global=np.eye(4))
    metric = METRICS.create(dict(type="NuScenes"))
    metric.process({}, [Boxes3D(sample=about, boxes=np.ones((1, 9)), labels=np.zeros(1), scores=np.ones(1))])
    assert metric.compute_metrics(metric.results) == {}
    assert metric.views(None, CLASSES) is None
    metric.export(tmp_path / "x.json", CLASSES)
    assert list(json.loads((tmp_path / "x.json").read_text())["results"]) == ["a"]


ROW = dict(
    sample_token="a", translation=[0, 0, 0], size=[1, 1, 1], rotation=[1, 0, 0, 0], velocity=[0, float("nan")],
    detection_name="car", detection_score=0.5, attribute_name="",
)  # fmt: skip
WRONG = {
    "no json": ("{", "is not JSON"),
    "a list": ([], "must be an object with 'meta' and 'results'"),
    "strange sample": (dict(a=[], b=[]), "for the sample 'b', which is not of this split: give the --version"),
    "missing sample": ({}, "has no predictions for 1.*a: give samples without predictions"),
    "no list": (dict(a={}), "no list of predictions for the sample a"),
    "too many": (dict(a=[ROW] * 501), "has 501 predictions for the sample a, and 500 are allowed"),
    "no object": (dict(a=[3]), "prediction 0 of the sample a in .* is no object"),
    "short place": (dict(a=[ROW | dict(translation=[1, 2])]), "must have a 'translation' of 3 numbers, got \\[1, 2\\]"),
    "NaN": (dict(a=[ROW | dict(size=[1, 1, float("nan")])]), "must have a 'size' of 3 numbers"),
    "a number as text": (dict(a=[ROW | dict(velocity=["1", 2])]), "must have a 'velocity' of 2 numbers"),
    "400 digits": (dict(a=[ROW | dict(size=[1, 1, 10**400])]), "must have a 'size' of 3 numbers"),  # issue 44.30
    "no side": (dict(a=[ROW | dict(size=[1, 0, 1])]), "sides larger than 0, got a size of \\[1, 0, 1\\]"),
    "no rotation": (dict(a=[ROW | dict(rotation=[0, 0, 0, 0])]), "a rotation of zeros"),
    "no score": (dict(a=[ROW | dict(detection_score=None)]), "a number as detection_score, got None"),
    "a class": (dict(a=[ROW | dict(detection_name="cars")]), "detection_name 'cars', which is none, did you mean 'car"),
    "an attribute": (dict(a=[ROW | dict(attribute_name=3)]), "the attribute_name 3, which is none. Export"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_submission_is_reported_in_one_line(tmp_path, case):
    content, message = WRONG[case]
    whole = content if isinstance(content, str | list) else dict(meta={}, results=content)
    (tmp_path / "x.json").write_text(content if isinstance(content, str) else json.dumps(whole))
    with pytest.raises(DataError, match=message):
        submission.read_submission(tmp_path / "x.json", ["a"])


def test_a_submission_may_have_unknown_velocities(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(dict(meta={}, results=dict(a=[ROW]))))
    assert np.isnan(submission.read_submission(tmp_path / "x.json", ["a"]).velocity[0, 1])
