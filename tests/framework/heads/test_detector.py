"""YOLOv10's head: formulas against slow readings of them, and what reaches the backbone."""

import math

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.framework.heads.nms import suppressed
from ndformer.framework.heads.yolo import Branch, best, decode
from ndformer.framework.losses.assignment import Objects, TaskAligned
from ndformer.framework.losses.boxes import complete_iou, distribution_focal
from ndformer.framework.losses.detection import Anchors, detection_losses
from ndformer.framework.registry import HEADS
from ndformer.framework.tokens import TokenSet, Where
from tests.soak.sixteen import losses


def detector(classes=3, dim=16, **options):
    torch.manual_seed(0)
    neck = dict(type="SimpleFeaturePyramid", width=8)
    return HEADS.create(dict(type="Detector", classes=classes, neck=neck, **options), dim=dim)


def tokens(rows=4, columns=4, dim=16, batch=2, seed=0):
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    positions = torch.stack([y, x], -1).flatten(0, 1).float()[None]
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(batch, rows * columns, dim, generator=g)
    return TokenSet(features.requires_grad_(), Where(positions, grid=(rows, columns)))


def sample(*boxes, labels=None, **more):
    labels = torch.zeros(len(boxes)).long() if labels is None else torch.tensor(labels)
    return dict(boxes=torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4), labels=labels, **more)


SAMPLES = [sample((3, 5, 40, 30), (20, 20, 60, 64), labels=[0, 2]), sample((0, 0, 20, 20), labels=[1])]


def test_the_published_number_of_parameters():
    """2,099,122 for 91 classes on 256 channels, of which 16 are fixed numbers that are none here."""
    branch = Branch(256, 91, (8, 16, 32), 1e-3, 0.03)
    assert 2 * sum(p.numel() for p in branch.parameters()) == 2_099_122 - 16


def test_both_branches_start_alike_and_expect_five_objects_in_640_pixels():
    head = detector()
    for one, many in zip(head.one.parameters(), head.many.parameters()):
        assert torch.equal(one, many)
    assert head.many.score[0][-1].bias.tolist() == pytest.approx([math.log(5 / 3 / 80**2)] * 3)
    assert head.many.box[2][-1].bias.unique().tolist() == [1]


def test_decoding_is_the_expected_distance_from_the_center():
    branch = Branch(8, 3, (8, 16), 1e-3, 0.03).double().eval()
    maps = [torch.randn(2, 8, 3, 4, dtype=torch.float64), torch.randn(2, 8, 2, 2, dtype=torch.float64)]
    found = branch(maps)
    raw = [layer(x) for layer, x in zip(branch.box, maps)]
    at = 0
    for x, stride in zip(raw, (8, 16)):
        for j in range(x.shape[2]):
            for i in range(x.shape[3]):
                shares = x[1, :, j, i].view(4, 16).softmax(1).tolist()
                left, top, right, bottom = (sum(k * share for k, share in enumerate(side)) for side in shares)
                box = [(i + 0.5 - left), (j + 0.5 - top), (i + 0.5 + right), (j + 0.5 + bottom)]
                expected = torch.tensor([v * stride for v in box], dtype=torch.float64)
                torch.testing.assert_close(found.boxes[1, at], expected, rtol=0, atol=1e-9)
                at += 1
    assert at == found.boxes.shape[1]


def made_anchors(seed=0, batch=2, classes=3):
    """Float64 predictions of two small maps."""
    g = torch.Generator().manual_seed(seed)
    grids = [(x, y, s) for s, n in ((8.0, 6), (16.0, 3)) for y in range(n) for x in range(n)]
    centers = torch.tensor([((x + 0.5) * s, (y + 0.5) * s) for x, y, s in grids], dtype=torch.float64)
    stride = torch.tensor([s for *_, s in grids], dtype=torch.float64)
    logits = torch.randn(batch, len(grids), classes, generator=g, dtype=torch.float64)
    sides = torch.randn(batch, len(grids), 4, 16, generator=g, dtype=torch.float64)
    return centers, stride, logits, sides - 0.2 * torch.arange(16)


THERE = Objects(
    torch.tensor([[[2, 3, 40, 33], [20, 12, 47, 47]], [[5, 5, 25, 30], [0, 0, 0, 0]]]).double(),
    torch.tensor([[0, 2], [1, 0]]),
    torch.tensor([[True, True], [True, False]]),
)


def test_the_loss_is_its_formula_summed_anchor_by_anchor():
    centers, stride, logits, sides = made_anchors()
    boxes = decode(sides, centers, stride)
    found = TaskAligned()(logits.sigmoid(), boxes, centers, THERE)
    assert found.chosen.sum() > 5
    box = score = side = total = 0.0
    for b in range(2):
        for a in range(len(centers)):
            weight, g = float(found.weight[b, a]), int(found.object[b, a])
            total += weight
            for k in range(3):
                target = weight if found.chosen[b, a] and k == THERE.labels[b, g] else 0.0
                p = 1 / (1 + math.exp(-float(logits[b, a, k])))
                score -= target * math.log(p) + (1 - target) * math.log(1 - p)
            if found.chosen[b, a]:
                true, s = THERE.boxes[b, g], float(stride[a])
                box += weight * (1 - float(complete_iou(true / s, boxes[b, a] / s)))
                x, y = (centers[a] / s).tolist()
                x1, y1, x2, y2 = (true / s).tolist()
                parts = zip(sides[b, a], (x - x1, y - y1, x2 - x, y2 - y))
                each = [float(distribution_focal(p, torch.tensor(d, dtype=torch.float64))) for p, d in parts]
                side += weight * sum(each) / 4
    total = max(total, 1.0)
    got = detection_losses(Anchors(centers, stride, logits, sides, boxes), THERE, TaskAligned())
    expected = dict(box=7.5 * box / total, score=0.5 * score / total, sides=1.5 * side / total)
    assert {k: float(v) for k, v in got.items()} == pytest.approx(expected, rel=0, abs=1e-9)


def test_gradients_of_the_loss():
    """With the assignment, which has none, held still; complete IoU's gradient has a test of its own."""
    centers, stride, logits, sides = made_anchors(batch=1)
    there = Objects(THERE.boxes[:1], THERE.labels[:1], THERE.real[:1])
    still = TaskAligned()(logits.sigmoid(), decode(sides, centers, stride), centers, there)

    def parts(logits, sides):
        found = Anchors(centers, stride, logits, sides, decode(sides, centers, stride).detach())
        loss = detection_losses(found, there, lambda *_: still)  # pyright: ignore[reportArgumentType]
        return loss["score"] + loss["sides"]

    directions = [torch.randn_like(logits), torch.randn_like(sides)]
    inputs = [logits.requires_grad_(), sides.requires_grad_()]
    slopes = torch.autograd.grad(parts(*inputs), inputs)
    with torch.no_grad():
        for step, direction, slope in zip((1e-6, 1e-6), directions, slopes):
            moved = [[x + sign * step * direction if x.shape == slope.shape else x for x in inputs] for sign in (1, -1)]
            numeric = (parts(*moved[0]) - parts(*moved[1])) / (2 * step)
            assert float((slope * direction).sum()) == pytest.approx(float(numeric), rel=1e-6)


def test_gradients_of_the_second_branch_reach_neither_neck_nor_backbone():
    head = detector()
    x = tokens()
    head.one.requires_grad_(False)
    maps = head.neck(x)
    both = head.loss(x, head.targets(SAMPLES, torch.device("cpu")))
    through_both = torch.autograd.grad(both["loss"], [x.features, *head.neck.parameters()])
    head.train()
    many = detection_losses(head.many(maps), head.targets(SAMPLES, torch.device("cpu")), head.train_assigner)
    through_many = torch.autograd.grad(torch.stack(list(many.values())).sum(), [x.features, *head.neck.parameters()])
    for a, b in zip(through_both, through_many):
        assert torch.equal(a, b)


def test_both_branches_learn():
    head = detector()
    head.loss(tokens(), head.targets(SAMPLES, torch.device("cpu")))["loss"].backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("samples", [[sample(), sample()], [sample((5, 5, 5, 5)), sample((9, 9, 10, 10))]])
def test_batches_without_objects_or_with_none_that_an_anchor_sees_have_a_loss(samples):
    head = detector()
    losses = head.loss(tokens(), head.targets(samples, torch.device("cpu")))
    assert losses["loss"].isfinite()
    assert losses["many_box"] == losses["many_sides"] == 0
    losses["loss"].backward()


@pytest.mark.parametrize("side, assigned", [(0.0, False), (20.0, True)])
def test_both_branches_train_on_objects_between_anchors_if_these_are_widened(side, assigned):
    torch.manual_seed(0)
    neck = dict(type="SimpleFeaturePyramid", width=8, scales=(1,))
    head = HEADS.create(dict(type="Detector", classes=3, neck=neck, least_side=side), dim=16)
    for branch in (head.many, head.one):  # boxes about their anchors, so that they overlap the object
        torch.nn.init.zeros_(branch.box[0][-1].weight)
    between = [sample((9, 9, 23, 23))]  # centers are at 8, 24, 40 ...
    losses = head.loss(tokens(batch=1), head.targets(between, torch.device("cpu")))
    assert (losses["many_box"] > 0, losses["one_box"] > 0) == (assigned, assigned)


def test_an_object_trains_ten_anchors_of_one_branch_and_a_single_one_of_the_other():
    head, square = detector(), torch.tensor([[0.0, 0, 60, 60]])
    objects = Objects(square[None], torch.zeros(1, 1).long(), torch.ones(1, 1).bool())
    centers = torch.cartesian_prod(*[torch.arange(5.0, 60, 10)] * 2)
    for assign, count in ((head.train_assigner, 10), (head.predict_assigner, 1)):
        assert assign(torch.full((1, 36, 3), 0.5), square.expand(1, 36, 4), centers, objects).chosen.sum() == count


def test_constants_of_batch_norms_are_those_of_the_options():
    for head, expected in ((detector(), (1e-3, 0.03)), (detector(norm_eps=1e-5, norm_momentum=0.1), (1e-5, 0.1))):
        norms = [part for part in head.modules() if isinstance(part, torch.nn.BatchNorm2d)]
        assert {(norm.eps, norm.momentum) for norm in norms} == {expected}


def test_a_label_beyond_the_classes_is_one_sentence():
    with pytest.raises(DataError, match="a sample has the label 3, but there are 3 classes, 0 to 2: give the head"):
        detector().targets([sample((0, 0, 9, 9), labels=[3])], torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_losses_are_float32_under_autocast(dtype):
    head = detector()
    exact = head.loss(tokens(), head.targets(SAMPLES, torch.device("cpu")))["loss"]
    with torch.autocast("cpu", dtype):
        found = head.many(head.neck(tokens()))
        loss = head.loss(tokens(), head.targets(SAMPLES, torch.device("cpu")))["loss"]
    assert found.logits.dtype == found.boxes.dtype == loss.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(exact.detach()), rel=0.05)


def test_one_head_serves_grids_of_every_size_and_type():
    head = detector().eval()
    assert head.many(head.neck(tokens(4, 4))).boxes.shape[1] == 64 + 16 + 4
    assert head.many(head.neck(tokens(3, 5))).boxes.shape[1] == 60 + 15 + 6
    assert head.double().many([torch.zeros(1, 8, n, n).double() for n in (8, 4, 2)]).centers.dtype == torch.float64


def test_the_best_are_anchors_first_and_then_their_classes():
    logits = torch.tensor([[[2.0, 1.9], [-5.0, 3.0], [1.0, -9.0]]])
    boxes = torch.arange(12.0).view(1, 3, 4)
    scores, labels, chosen = best(logits, boxes, 2)
    assert labels.tolist() == [[1, 0]]
    assert chosen[0].tolist() == [boxes[0, 1].tolist(), boxes[0, 0].tolist()]
    scores, labels, chosen = best(logits, boxes, 300)  # fewer anchors than wanted
    assert labels.tolist() == [[1, 0, 1]]  # the first anchor stands for two
    assert scores[0].tolist() == pytest.approx(torch.tensor([3.0, 2.0, 1.9]).sigmoid().tolist())


def test_suppression_is_greedy():
    g = torch.Generator().manual_seed(0)
    low = torch.rand(60, 2, generator=g) * 30
    boxes, labels = torch.cat([low, low + 15], 1), torch.randint(0, 2, (60,), generator=g)
    stays = []
    for i in range(60):

        def iou(j, i=i):
            side = (torch.minimum(boxes[i, 2:], boxes[j, 2:]) - torch.maximum(boxes[i, :2], boxes[j, :2])).clamp(min=0)
            both = float(side.prod())
            return both / (450 - both)

        if all(labels[i] != labels[j] or iou(j) <= 0.4 for j in stays):
            stays.append(i)
    assert (~suppressed(boxes, labels, 0.4)).nonzero().flatten().tolist() == stays


def test_boxes_that_do_not_touch_are_not_suppressed():
    boxes = torch.tensor([[0.0, 0, 10, 10], [30, 30, 40, 40], [30, 0, 40, 10], [1, 0, 10, 10]])
    assert suppressed(boxes, torch.zeros(4), 0.5).tolist() == [False, False, False, True]


def test_predictions_come_in_pixels_of_the_original_image():
    head = detector(least_score=0.0, most=5).eval()
    x = tokens(batch=1)
    plain = head.predict(x, [dict(image_id=1)])[0]
    assert plain.boxes.shape == (5, 4)
    assert (plain.scores.diff() <= 0).all()
    framed = head.predict(x, [dict(image_id=1, frame=(2.0, 3.0, -4.0, 6.0), size=(90, 70))])[0]
    expected = plain.boxes * torch.tensor([2.0, 3, 2, 3]) + torch.tensor([-4.0, 6, -4, 6])
    torch.testing.assert_close(framed.boxes, expected.clamp(min=0).minimum(torch.tensor([70.0, 90, 70, 90])))


def test_low_scores_are_left_out_and_suppression_is_optional():
    head = detector(least_score=0.0, most=40).eval()
    with torch.no_grad():
        for part in head.one.box:
            part[-1].weight.zero_()  # all anchors of a level have equal, large boxes
    x = tokens(batch=1)
    count = lambda: len(head.predict(x, [{}])[0].scores)
    assert count() == 40
    head.min_score = float(head.predict(x, [{}])[0].scores[7])
    assert count() == 8  # those of at least this score
    head.min_score, head.nms = 0.0, 0.5
    assert 0 < count() < 40
    head.min_score = 1.0
    assert count() == 0


def test_a_small_head_overfits_two_images():
    """Every object is found once, and nothing else."""
    head = detector(classes=3)
    x = tokens()
    features = torch.nn.Parameter(x.features.detach().clone())
    optimizer = torch.optim.AdamW([features, *head.parameters()], lr=1e-2)
    targets = head.targets(SAMPLES, torch.device("cpu"))
    for _ in range(70):
        optimizer.zero_grad()
        head.loss(TokenSet(features, x.where), targets)["loss"].backward()
        optimizer.step()
    for found, there in zip(head.predict(TokenSet(features, x.where), SAMPLES), SAMPLES):
        sure = found.scores > 0.3
        assert sorted(found.labels[sure].tolist()) == sorted(there["labels"].tolist())
        overlap = complete_iou(found.boxes[sure][:, None], there["boxes"])
        assert overlap.amax(0).min() > 0.7


@pytest.mark.slow
def test_losses_in_16_bit_are_close_to_float32():
    """Over a few steps; python -m tests.soak.sixteen goes the whole way."""
    exact = np.mean(losses(None, 12, 2))
    assert np.mean(losses(torch.bfloat16, 12, 2)) == pytest.approx(exact, rel=0.05)
    assert np.mean(losses(torch.float16, 12, 2)) == pytest.approx(exact, rel=0.05)
