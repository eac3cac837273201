"""Overlap of turned boxes, against clipping polygons one side at a time."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.modalities.driving.models.boxes3d import distance_iou, iou_3d, iou_above, rotated_nms

few = settings(max_examples=80, deadline=None, derandomize=True)
number = st.floats(-3, 3, width=32)
side = st.floats(0.125, 5, width=32)
box = st.tuples(number, number, number, side, side, side, st.floats(-7, 7, width=32))
neat = st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1.0])] * 3, *[st.sampled_from([0.5, 1.0, 2.0])] * 3,
                 st.sampled_from([0.0, math.pi / 4, math.pi / 2, math.pi, 1.0]))  # fmt: skip

Polygon = list[tuple[float, float]]


def polygon(x: float, y: float, _: float, width: float, length: float, __: float, yaw: float) -> Polygon:
    c, s = math.cos(yaw), math.sin(yaw)
    around = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
    return [(x + i * length / 2 * c - j * width / 2 * s, y + i * length / 2 * s + j * width / 2 * c) for i, j in around]


def area(points: Polygon) -> float:
    pairs = zip(points, points[1:] + points[:1])
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs)) / 2


def clipped(points: Polygon, clip: Polygon) -> Polygon:
    """Sutherland and Hodgman: what is left of each side of a counter-clockwise `clip`, one after the other."""
    for a, b in zip(clip, clip[1:] + clip[:1]):

        def side_of(p: tuple[float, float], a: Any = a, b: Any = b) -> float:
            return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])

        left: Polygon = []
        for p, q in zip(points, points[1:] + points[:1]):
            at, to = side_of(p), side_of(q)
            if at >= 0:
                left.append(p)
            if at * to < 0:
                t = at / (at - to)
                left.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
        points = left
    return points


def overlaps(a: Any, b: Any) -> tuple[float, float]:
    """IoU from above and in space."""
    common = area(clipped(polygon(*a), polygon(*b)))
    high = max(0.0, min(a[2] + a[5] / 2, b[2] + b[5] / 2) - max(a[2] - a[5] / 2, b[2] - b[5] / 2))
    above = common / (a[3] * a[4] + b[3] * b[4] - common)
    return above, common * high / (a[3] * a[4] * a[5] + b[3] * b[4] * b[5] - common * high)


@few
@given(st.one_of(box, neat), st.one_of(box, neat))
def test_overlap_is_that_of_clipped_polygons(a, b):
    one, other = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    above, inside = overlaps(a, b)
    assert abs(iou_above(one, other) - above) < 1e-6
    assert abs(iou_3d(one, other) - inside) < 1e-6


@few
@given(box, box)
def test_float32_is_near_enough(a, b):
    assert abs(iou_above(torch.tensor(a), torch.tensor(b)) - overlaps(a, b)[0]) < 2e-4


def test_boxes_of_one_heading_that_share_sides_overlap_alike_in_float32():
    """Two lanes of parked cars: the sides of boxes lie on one line, whose intersections are rounding."""
    generator = np.random.default_rng(0)
    yaw, length, shorter = (
        generator.uniform(-4, 4, 4000),
        generator.uniform(0.5, 6, 4000),
        generator.uniform(0.1, 1, 4000),
    )
    a = np.zeros((4000, 7))
    a[:, :3], a[:, 3], a[:, 4], a[:, 5], a[:, 6] = generator.uniform(-50, 50, (4000, 3)), 2, length, 1, yaw
    b = a.copy()
    b[:, 4] *= shorter
    found = iou_above(torch.tensor(a).float(), torch.tensor(b).float()).numpy()
    assert np.abs(found - shorter).max() < 1e-4


@few
@given(box, st.sampled_from([0.0, math.pi, 2 * math.pi, -math.pi]))
def test_a_box_overlaps_itself_fully_after_half_turns(a, turn):
    one = torch.tensor(a, dtype=torch.float64)
    other = one.clone()
    other[6] += turn
    assert iou_3d(one, other) == pytest.approx(1, abs=1e-6)
    assert distance_iou(one, one) == pytest.approx(1)


def test_distance_iou_is_the_formula():
    a = torch.tensor([0.0, 0, 0, 2, 4, 2, 1])  # length 4 along x, width 2 along y
    b = torch.tensor([2.0, 1, 0, 2, 4, 2, 0])
    common = 2 * 1 * 2
    assert distance_iou(a, b) == pytest.approx(common / (32 - common) - 5 / (36 + 9 + 4))


def test_gradients_of_distance_iou_are_finite():
    boxes = torch.rand(50, 7, requires_grad=True)
    distance_iou(boxes, torch.rand(50, 7) + 0.1).sum().backward()
    assert boxes.grad is not None
    assert boxes.grad.isfinite().all()


def test_suppression_is_the_loop():
    torch.manual_seed(0)
    boxes = torch.rand(60, 7).double() * torch.tensor([8.0, 8, 1, 2, 2, 1, 6]) + 0.2
    scores = torch.rand(60).mul(10).round()  # with ties
    kept: list[int] = []
    for i in sorted(range(60), key=lambda i: -float(scores[i])):
        if all(overlaps(boxes[j].tolist(), boxes[i].tolist())[0] <= 0.175 for j in kept):
            kept.append(i)
    assert rotated_nms(boxes, scores, 0.175).nonzero().squeeze(1).tolist() == sorted(kept)
    assert rotated_nms(boxes[:0], scores[:0], 0.1).shape == (0,)
