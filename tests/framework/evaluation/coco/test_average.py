"""The twelve numbers equal those of the two packages that compute COCO's own."""

import contextlib
import importlib.util
import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.evaluation.coco import match as coco_match
from ndformer.framework.evaluation.coco.average import NAMES, evaluate
from ndformer.framework.evaluation.coco.files import listed
from ndformer.framework.evaluation.coco.match import Detections, Truth

PACKAGES = [
    pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"no {name}"))
    for name in ("pycocotools", "faster_coco_eval")
]


def scene(seed: int, images: int = 4, classes: int = 3, truths: int = 30, detections: int = 300, whole: bool = True):
    """Boxes found about where they are: with ties, crowds, areas unlike boxes, classes without truth."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([12, 60, 250]))

    def boxes(count: int) -> np.ndarray:
        drawn = np.concatenate([rng.uniform(0, size, (count, 2)), rng.uniform(0.5, size, (count, 2))], axis=1)
        return np.ceil(drawn) if whole else drawn

    box = boxes(truths)
    truth = Truth(
        rng.integers(0, images, truths),
        rng.integers(0, max(1, classes - 1), truths),
        box,
        box[:, 2] * box[:, 3] * rng.choice([1.0, 0.4], truths),
        rng.random(truths) < 0.15,
    )
    box, image, label = boxes(detections), rng.integers(0, images, detections), rng.integers(0, classes, detections)
    if truths:
        near, of = rng.random(detections) < 0.7, rng.integers(0, truths, detections)
        moved = truth.box[of] + (rng.integers(-2, 3, box.shape) if whole else rng.normal(0, 3, box.shape))
        box = np.where(near[:, None], moved.clip(0), box)
        image, label = np.where(near, truth.image[of], image), np.where(near, truth.label[of], label)
    score = rng.integers(0, 5, detections) / 5 if rng.random() < 0.5 else rng.random(detections)
    return truth, Detections(image, label, box, score.astype(float)), images, classes


def twelve(truth: Truth, detections: Detections, images: int, classes: int, package: str) -> dict[str, float]:
    """The numbers of pycocotools or faster-coco-eval. Ids count from 1: pycocotools takes annotation 0 as missed."""
    coco: Any = importlib.import_module("pycocotools.coco" if package == "pycocotools" else package)
    cocoeval: Any = importlib.import_module("pycocotools.cocoeval" if package == "pycocotools" else package)
    if not len(detections.score):  # pycocotools cannot load an empty list
        return evaluate(truth, detections, images, classes).numbers()
    rows = zip(*(x.tolist() for x in (truth.image, truth.label, truth.box, truth.area, truth.crowd)))
    with contextlib.redirect_stdout(io.StringIO()):
        index = coco.COCO()
        index.dataset = dict(
            info={},
            images=[dict(id=i + 1) for i in range(images)],
            categories=[dict(id=k + 1, name=str(k)) for k in range(classes)],
            annotations=[
                dict(id=n, image_id=i + 1, category_id=k + 1, bbox=box, area=area, iscrowd=int(crowd))
                for n, (i, k, box, area, crowd) in enumerate(rows, 1)
            ],
        )
        index.createIndex()
        results = index.loadRes(listed(detections, range(1, images + 1), range(1, classes + 1)))
        evaluation = cocoeval.COCOeval if package == "pycocotools" else cocoeval.COCOeval_faster
        evaluator = evaluation(index, results, "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return dict(zip(NAMES, map(float, evaluator.stats)))


def close(ours: dict[str, float], theirs: dict[str, float]) -> None:
    assert list(ours) == list(theirs) == list(NAMES)
    np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("package", PACKAGES)
@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 60),
    st.sampled_from([0, 1, 20, 150, 400]),
    st.booleans(),
)
def test_the_packages_give_the_same(package, seed, images, classes, truths, detections, whole):
    made = scene(seed, images, classes, truths, detections, whole)
    close(evaluate(*made).numbers(), twelve(*made, package))


def test_an_image_with_more_than_a_hundred_detections_keeps_the_best_hundred():
    truth = Truth(np.array([0]), np.array([0]), np.array([[0.0, 0, 10, 10]]), np.array([100.0]), np.array([False]))
    box = np.tile([[50.0, 50, 10, 10]], (101, 1))
    box[100] = truth.box[0]
    none = np.zeros(101, dtype=int)
    assert evaluate(truth, Detections(none, none, box, np.linspace(1, 0, 101)), 1, 1).numbers()["AR100"] == 0
    assert evaluate(truth, Detections(none, none, box, np.linspace(0, 1, 101)), 1, 1).numbers()["AR100"] == 1


def test_nothing_found_is_0_and_nothing_there_is_minus_1():
    truth, found, images, classes = scene(0)
    nothing = found[np.zeros(0, dtype=int)]
    numbers = evaluate(truth, nothing, images, classes).numbers()
    assert all(value in (0, -1) for value in numbers.values())
    assert numbers["AP"] == numbers["AR100"] == 0
    empty = scene(0, truths=0)
    assert set(evaluate(*empty).numbers().values()) == {-1}
    assert set(evaluate(empty[0], nothing, 0, 0).numbers().values()) == {-1}


def test_memory_is_bounded_by_pieces_without_a_change(monkeypatch):
    made = scene(3)
    whole = evaluate(*made).numbers()
    monkeypatch.setattr(coco_match, "PAIR_CHUNK", 7)
    assert evaluate(*made).numbers() == whole


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_it_is_faster_than_the_packages_need_be(package):
    """The promise: 3 times pycocotools' speed, a third of faster-coco-eval's; 6 and 1 are what one sees."""
    made = scene(0, 100, 80, 800, 5000, whole=False)

    def seconds(call: Callable[..., Any], *arguments: Any) -> float:
        start = time.perf_counter()
        call(*arguments)
        return time.perf_counter() - start

    ours, theirs = min(seconds(evaluate, *made) for _ in range(3)), seconds(twelve, *made, package)
    assert ours < theirs / 3 if package == "pycocotools" else ours < theirs * 3
