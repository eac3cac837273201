"""The twelve numbers equal COCO's own, from a slow reading of its rules and from the two packages that have them."""

import importlib.util
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.evaluation.coco import match as coco_match
from ndformer.framework.evaluation.coco.average import NAMES, evaluate
from ndformer.framework.evaluation.coco.backends import twelve
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


def slow(truth: Truth, found: Detections, images: int, classes: int) -> dict[str, float]:
    """The rules, one box at a time."""

    def iou(d, g, crowd):
        w = min(d[0] + d[2], g[0] + g[2]) - max(d[0], g[0])
        h = min(d[1] + d[3], g[1] + g[3]) - max(d[1], g[1])
        if w <= 0 or h <= 0:
            return 0.0
        return w * h / (d[2] * d[3] if crowd else d[2] * d[3] + g[2] * g[3] - w * h)

    def judge(image, label, low, high, threshold, most):
        """(score, hit, counted) of the best detections of a class in an image, and how many truths count."""
        there = [g for g in range(len(truth.label)) if (truth.image[g], truth.label[g]) == (image, label)]
        ignored = {g: bool(truth.crowd[g]) or not low <= truth.area[g] <= high for g in there}
        mine = [d for d in range(len(found.label)) if (found.image[d], found.label[d]) == (image, label)]
        mine = sorted(mine, key=lambda d: -found.score[d])[:100]
        used, rows = set(), []
        for d in mine:
            for wanted in (False, True):
                best, pick = threshold, None
                for g in there:
                    if ignored[g] == wanted and (g not in used or truth.crowd[g]):
                        o = iou(found.box[d], truth.box[g], truth.crowd[g])
                        if o >= best:
                            best, pick = o, g
                if pick is not None:
                    break
            if pick is None:
                rows.append((found.score[d], False, low <= found.box[d, 2] * found.box[d, 3] <= high))
            else:
                used.add(pick)
                rows.append((found.score[d], not ignored[pick], not ignored[pick]))
        return rows[:most], sum(not i for i in ignored.values())

    def curve(label, low, high, threshold, most):
        judged = [judge(image, label, low, high, threshold, most) for image in range(images)]
        total = sum(count for _, count in judged)
        if not total:
            return None
        rows = sorted((row for rows, _ in judged for row in rows), key=lambda row: -row[0])
        hits, seen, points = 0, 0, []
        for _, hit, counted in rows:
            hits, seen = hits + hit, seen + counted
            points.append((hits / total, hits / max(seen, 1)))
        precisions = [max([p for r, p in points if r >= level], default=0.0) for level in np.linspace(0, 1, 101)]
        return np.mean(precisions), hits / total

    def mean(which, area, most, thresholds):
        low, high = dict(all=(0, 1e10), s=(0, 1024), m=(1024, 9216), l=(9216, 1e10))[area]
        values = [curve(k, low, high, t, most) for k in range(classes) for t in thresholds]
        values = [v[which] for v in values if v is not None]
        return float(np.mean(values)) if values else -1.0

    every = np.linspace(0.5, 0.95, 10)
    ap = [mean(0, "all", 100, t) for t in (every, every[:1], every[5:6])] + [mean(0, a, 100, every) for a in "sml"]
    ar = [mean(1, "all", most, every) for most in (1, 10, 100)] + [mean(1, a, 100, every) for a in "sml"]
    return dict(zip(NAMES, ap + ar))


def close(ours: dict[str, float], theirs: dict[str, float]) -> None:
    assert list(ours) == list(theirs) == list(NAMES)
    np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=0, atol=1e-12)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 40), st.booleans())
def test_the_numbers_follow_the_rules_read_one_box_at_a_time(seed, truths, detections, whole):
    made = scene(seed, 2, 2, truths, detections, whole)
    close(evaluate(*made).numbers(), slow(*made))


@pytest.mark.parametrize("backend", PACKAGES)
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 60),
    st.sampled_from([0, 1, 20, 150, 400]),
    st.booleans(),
)
def test_the_packages_give_the_same(backend, seed, images, classes, truths, detections, whole):
    made = scene(seed, images, classes, truths, detections, whole)
    close(evaluate(*made).numbers(), twelve(*made, backend))


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


@pytest.mark.parametrize("backend", PACKAGES)
def test_it_is_faster_than_the_packages_need_be(backend):
    """The promise: 3 times pycocotools' speed, a third of faster-coco-eval's; 6 and 1 are what one sees."""
    made = scene(0, 100, 80, 800, 5000, whole=False)

    def seconds(name: str) -> float:
        start = time.perf_counter()
        twelve(*made, name)  # pyright: ignore[reportArgumentType]
        return time.perf_counter() - start

    ours, theirs = min(seconds("builtin") for _ in range(3)), seconds(backend)
    assert ours < theirs / 3 if backend == "pycocotools" else ours < theirs * 3
