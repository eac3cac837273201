"""Task-aligned assignment against its rules, one object and anchor at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.losses.assignment import Objects, TaskAligned
from ndformer.framework.losses.boxes import complete_iou


def scene(seed, batch=2, objects=5, classes=3, side=6, stride=10.0, ties=False):
    """Anchors of one map, boxes about their own places, objects that overlap each other."""
    g = torch.Generator().manual_seed(seed)
    rand = lambda *shape: torch.rand(*shape, generator=g, dtype=torch.float64)
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    centers = (torch.stack([x, y], -1).flatten(0, 1).double() + 0.5) * stride
    half = 4 + 16 * rand(batch, side * side, 2)
    middle = centers + 8 * rand(batch, side * side, 2) - 4
    boxes, scores = torch.cat([middle - half, middle + half], -1), rand(batch, side * side, classes)
    if ties:
        boxes, scores = torch.cat([centers - 8, centers + 8], -1).expand(batch, -1, -1), torch.full_like(scores, 0.01)
    low = rand(batch, objects, 2) * 40
    size = rand(batch, objects, 2) * 40
    labels = torch.randint(0, classes, (batch, objects), generator=g)
    there = Objects(torch.cat([low, low + size], -1), labels, rand(batch, objects) < 0.8)
    return scores, boxes, centers, there


def slow(scores, boxes, centers, there, most, least_side=0.0, alpha=0.5, beta=6.0):
    """object, weight and chosen of each anchor of each sample, as nested lists."""
    results = []
    for b in range(len(scores)):
        objects = [g for g in range(there.labels.shape[1]) if there.real[b, g]]
        anchors = range(scores.shape[1])
        o, t = {}, {}
        overlaps = complete_iou(there.boxes[b, :, None], boxes[b]).tolist()
        for g in objects:
            x1, y1, x2, y2 = there.boxes[b, g].tolist()
            if x2 - x1 < least_side:
                x1, x2 = (x1 + x2 - least_side) / 2, (x1 + x2 + least_side) / 2
            if y2 - y1 < least_side:
                y1, y2 = (y1 + y2 - least_side) / 2, (y1 + y2 + least_side) / 2
            for a in anchors:
                x, y = centers[a].tolist()
                if min(x - x1, y - y1, x2 - x, y2 - y) > 1e-9:
                    o[g, a] = max(0.0, overlaps[g][a])
                    t[g, a] = float(scores[b, a, there.labels[b, g]]) ** alpha * o[g, a] ** beta
        wanted = set()
        for g in objects:
            inside = sorted((a for a in anchors if (g, a) in t), key=lambda a: (-t[g, a], a))
            wanted |= {(g, a) for a in inside[:most]}
        for a in anchors:
            if len(claims := {(g, a) for g in objects if (g, a) in wanted}) > 1:
                winner = max(objects, key=lambda g: (o.get((g, a), -1.0), -g))
                wanted = (wanted - claims) | {(winner, a)}
        rows = [(0, 0.0, False)] * len(anchors)
        for g, a in wanted:
            mine = [c for h, c in wanted if h == g]
            weight = t[g, a] * max(o[g, c] for c in mine) / (max(t[g, c] for c in mine) + 1e-9)
            rows[a] = (g, weight, True) if weight > 0 else rows[a]
        results.append(rows)
    return results


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([10, 7, 1]), st.integers(1, 6), st.sampled_from([0.0, 12.0]))
def test_the_rules_read_one_pair_at_a_time(seed, most, objects, least_side):
    made = scene(seed, objects=objects, ties=seed % 4 == 0)
    found = TaskAligned(most, min_side=least_side)(*made)
    expected = slow(*made, most, least_side)
    assert found.chosen.tolist() == [[row[2] for row in rows] for rows in expected]
    which = torch.where(found.chosen, found.object, 0)
    assert which.tolist() == [[row[0] for row in rows] for rows in expected]
    weights = torch.tensor([[row[1] for row in rows] for rows in expected], dtype=torch.float64)
    torch.testing.assert_close(found.weight, weights, rtol=0, atol=1e-9)


def test_an_object_between_centers_is_learned_by_none_unless_widened():
    scores, _, centers, _ = scene(0, batch=1)
    between = Objects(torch.tensor([[[5.0, 5, 11, 11]]]).double(), torch.zeros(1, 1).long(), torch.ones(1, 1).bool())
    boxes = between.boxes.expand(-1, len(centers), -1)
    assert not TaskAligned()(scores, boxes, centers, between).chosen.any()
    assert TaskAligned(min_side=16.0)(scores, boxes, centers, between).chosen.sum() == 4


def test_an_anchor_is_chosen_only_where_its_box_overlaps_the_object():
    """Issue 44.21: anchors inside an object were marked although their metric was 0."""
    scores, boxes, centers, _ = scene(0, batch=1)
    whole = Objects(torch.tensor([[[0.0, 0, 60, 60]]]).double(), torch.zeros(1, 1).long(), torch.ones(1, 1).bool())
    boxes[:, 3:] += 500
    assert TaskAligned()(scores, boxes, centers, whole).chosen.nonzero().tolist() == [[0, 0], [0, 1], [0, 2]]


@pytest.mark.parametrize("count", [0, 3])
def test_without_objects_nothing_is_chosen(count):
    scores, boxes, centers, _ = scene(0)
    nothing = Objects(torch.zeros(2, count, 4).double(), torch.zeros(2, count).long(), torch.zeros(2, count).bool())
    found = TaskAligned()(scores, boxes, centers, nothing)
    assert not found.chosen.any()
    assert not found.weight.any()


def test_more_wanted_than_there_are_anchors():
    scores, boxes, centers, there = scene(1, side=2, stride=32.0)
    assert TaskAligned(10)(scores, boxes, centers, there).chosen.shape == (2, 4)
