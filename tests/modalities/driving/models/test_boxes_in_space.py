"""CenterPoint and TransFusion: peaks, codes, assignments and losses against slow accounts of their formulas."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.driving.models.bev_grid import BEVGrid
from ndformer.modalities.driving.models.birds_eye import scatter_to_map
from ndformer.modalities.driving.models.boxes3d import iou_3d
from ndformer.modalities.driving.models.center_point import Cells
from ndformer.modalities.driving.models.matching import match, pair_losses
from ndformer.modalities.driving.models.objects3d import Objects3D, decode_boxes, encode_boxes, peak_focal, peaks

FIELD = BEVGrid((-6.0, -3.0), 0.5, (12, 24))
NECK: dict[str, Any] = dict(
    type="BirdsEyeNet", low=(-6.0, -3.0), high=(6.0, 3.0), cell=0.5, blocks=(1, 1), strides=(1, 2), widths=(8, 8),
    stride=1, up=8,
)  # fmt: skip
BOTH: list[dict[str, Any]] = [
    dict(type="CenterPoint", classes=3, neck=NECK, width=16),
    dict(type="TransFusion", classes=3, neck=NECK, width=16, heads=2, hidden=16, queries=20, radius=2, sharp=(2,)),
]


def tokens(seed: int = 0, pillars: int = 40) -> TokenSet:
    torch.manual_seed(seed)
    place = torch.zeros(2, pillars, 7)
    cell = torch.stack([torch.randperm(24 * 12)[:pillars] for _ in range(2)])
    place[..., 0] = (cell % 24 + 0.5) * 0.5 - 6
    place[..., 1] = (cell // 24 + 0.5) * 0.5 - 3
    valid = torch.ones(2, pillars, dtype=torch.bool)
    valid[1, pillars // 2 :] = False
    return TokenSet(torch.randn(2, pillars, 8), Where(place, valid=valid), torch.zeros(2, pillars).long())


def truth(seed: int, *counts: int) -> list[dict[str, Any]]:
    torch.manual_seed(seed)
    samples = []
    for n in counts:
        low = torch.tensor([-6.0, -3, -1, 0.3, 0.3, 0.5, -3, -2, -2])
        high = torch.tensor([6.0, 3, 1, 2.0, 4.0, 2.0, 3, 2, 2])
        boxes = low + torch.rand(n, 9) * (high - low)
        boxes[::3, 7:] = torch.nan
        samples.append(dict(boxes=boxes, classes=torch.randint(0, 3, (n,)), path="a.bin"))
    return samples


def objects_of(samples: list[dict[str, Any]], classes: int = 3) -> Objects3D:
    return Objects3D.from_samples(samples, classes, torch.device("cpu"))


def test_peaks_equal_a_slow_loop():
    samples = truth(0, 5, 0, 9)
    samples[0]["boxes"][0, :2] = torch.tensor([6.2, 0.0])  # beside the map
    found = peaks(objects_of(samples), FIELD, 3)
    exact = torch.zeros_like(found)
    for b, sample in enumerate(samples):
        for box, label in zip(sample["boxes"].tolist(), sample["classes"].tolist()):
            x, y = math.floor((box[0] + 6) / 0.5), math.floor((box[1] + 3) / 0.5)
            if not (0 <= x < 24 and 0 <= y < 12):
                continue
            h, w, o = box[4] / 0.5, box[3] / 0.5, 0.1
            r1 = (h + w + math.sqrt((h + w) ** 2 - 4 * w * h * (1 - o) / (1 + o))) / 2
            r2 = (2 * (h + w) + math.sqrt(4 * (h + w) ** 2 - 16 * (1 - o) * w * h)) / 2
            r3 = (-2 * o * (h + w) + math.sqrt(4 * o * o * (h + w) ** 2 - 16 * o * (o - 1) * w * h)) / 2
            r = max(2, int(min(r1, r2, r3)))
            for i, j in itertools.product(range(24), range(12)):
                if max(abs(i - x), abs(j - y)) <= r:
                    value = math.exp(-((i - x) ** 2 + (j - y) ** 2) / (2 * ((2 * r + 1) / 6) ** 2))
                    exact[b, label, j, i] = max(float(exact[b, label, j, i]), value)
    assert torch.allclose(found, exact, atol=1e-6)
    assert (found == 1).sum() > 5


def test_the_loss_of_peaks_is_the_formula():
    torch.manual_seed(0)
    logits, target = torch.randn(2, 3, 4, 5), torch.rand(2, 3, 4, 5)
    target.view(-1)[:7] = 1
    total = 0.0
    for x, t in zip(logits.flatten().tolist(), target.flatten().tolist()):
        p = 1 / (1 + math.exp(-x))
        total -= math.log(p) * (1 - p) ** 2 if t == 1 else math.log(1 - p) * p**2 * (1 - t) ** 4
    assert peak_focal(logits, target) == pytest.approx(total / 7, rel=1e-5)
    assert peak_focal(logits, target * 0.5).isfinite()


def test_codes_come_back_as_the_boxes_they_were():
    boxes = truth(1, 30)[0]["boxes"]
    again = decode_boxes(encode_boxes(boxes, FIELD), FIELD)
    assert torch.allclose(again, boxes, atol=1e-5, equal_nan=True)


def head(cfg: dict[str, Any], seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    return HEADS.create(cfg | options, dim=8).eval()


@torch.no_grad()
def test_the_loss_of_center_point_is_its_formula():
    net, samples = head(BOTH[0]), truth(2, 6, 3)
    cells = net(tokens())
    heat = peak_focal(cells.peaks, peaks(objects_of(samples), FIELD, 3))
    total, count = 0.0, 0
    for b, sample in enumerate(samples):
        for box in sample["boxes"].tolist():
            x, y = (box[0] + 6) / 0.5, (box[1] + 3) / 0.5
            count += 1
            code = [x % 1, y % 1, box[2], *map(math.log, box[3:6]), math.sin(box[6]), math.cos(box[6]), *box[7:]]
            for c, value in enumerate(code):
                if not math.isnan(value):
                    away = abs(float(cells.code[b, c, math.floor(y), math.floor(x)]) - value)
                    total += away * (0.2 if c > 7 else 1)
    loss = net.loss(tokens(), net.targets(samples, torch.device("cpu")))["loss"]
    assert loss == pytest.approx(float(heat) + 0.25 * total / count, rel=1e-4)


@torch.no_grad()
def test_center_point_predicts_its_best_local_maxima():
    net = head(BOTH[0], most=10, least_score=0.0)
    torch.manual_seed(0)
    cells = Cells(torch.randn(1, 3, 12, 24), torch.randn(1, 10, 12, 24) * 0.3)
    scores, labels, boxes = net.decoded(cells)
    found = []
    for c, y, x in itertools.product(range(3), range(12), range(24)):
        about = cells.peaks[0, c, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
        if cells.peaks[0, c, y, x] == about.max():
            found.append((float(cells.peaks[0, c, y, x].sigmoid()), c, y, x))
    for (score, c, y, x), s, label, box in zip(sorted(found, reverse=True), scores[0], labels[0], boxes[0]):
        dx, dy, z, w, length, h, sin, cos, vx, vy = cells.code[0, :, y, x].tolist()
        exact = [(x + dx) * 0.5 - 6, (y + dy) * 0.5 - 3, z, *map(math.exp, (w, length, h)), math.atan2(sin, cos)]
        assert (float(s), int(label)) == (pytest.approx(score), c)
        assert box.tolist() == pytest.approx([*exact, vx, vy], abs=1e-5)


def predictions(seed: int, queries: int = 7) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, boxes, codes and IoUs of queries of two samples."""
    torch.manual_seed(seed)
    boxes = torch.stack([one["boxes"].nan_to_num(0.3) for one in truth(seed, queries, queries)])
    return torch.randn(2, queries, 3), boxes, encode_boxes(boxes, FIELD), torch.rand(2, queries) * 2 - 1


def test_the_assignment_is_the_cheapest_by_the_published_costs():
    logits, boxes, _, _ = predictions(3)
    samples = truth(4, 4, 0)
    pairs = match(logits, boxes, objects_of(samples), FIELD)

    def cost(q: int, o: int) -> float:
        p = float(logits[0, q, samples[0]["classes"][o]].sigmoid())
        score = 0.25 * (1 - p) ** 2 * -math.log(p) - 0.75 * p**2 * -math.log(1 - p)
        box, own = samples[0]["boxes"][o], boxes[0, q]
        away = abs(float(box[0] - own[0])) / 12 + abs(float(box[1] - own[1])) / 6
        return 0.15 * score + 0.25 * away - 0.25 * float(iou_3d(own[:7], box[:7]))

    costs = [[cost(q, o) for o in range(4)] for q in range(7)]
    cheapest = min(sum(costs[q][o] for o, q in enumerate(p)) for p in itertools.permutations(range(7), 4))
    assert sum(costs[q][o] for q, o in zip(pairs.query.tolist(), pairs.object.tolist())) == pytest.approx(
        cheapest, abs=1e-6
    )
    assert pairs.sample.tolist() == [0] * 4
    broken = match(logits * torch.nan, boxes, objects_of(samples), FIELD)
    assert len(broken.query) == 4


def test_the_losses_of_queries_are_their_formulas():
    logits, boxes, code, iou = predictions(5)
    samples = truth(6, 3, 2)
    objects = objects_of(samples)
    pairs = match(logits, boxes, objects, FIELD)
    parts = pair_losses(logits, boxes, code, iou, objects, pairs, FIELD)
    chosen = {(int(b), int(q)): int(o) for b, q, o in zip(*pairs)}
    score = box = think = over = 0.0
    for b, q in itertools.product(range(2), range(7)):
        o = chosen.get((b, q))
        for c in range(3):
            p = float(logits[b, q, c].sigmoid())
            hit = o is not None and c == int(samples[b]["classes"][o])
            score += 0.25 * (1 - p) ** 2 * -math.log(p) if hit else 0.75 * p**2 * -math.log(1 - p)
        if o is None:
            continue
        true, own = samples[b]["boxes"][o].double(), boxes[b, q].double()
        yaw = float(true[6])
        place = [(true[0] + 6) / 0.5, (true[1] + 3) / 0.5, true[2]]
        values = [*place, *true[3:6].log(), math.sin(yaw), math.cos(yaw), *true[7:]]
        for c, value in enumerate(map(float, values)):
            if not math.isnan(value):
                box += (0.2 if c > 7 else 1) * abs(float(code[b, q, c]) - value)
        think += abs(float(iou[b, q]) - (2 * float(iou_3d(own[:7], true[:7])) - 1))
        sides = [
            [(float(m[i] - m[s] / 2), float(m[i] + m[s] / 2)) for i, s in ((0, 4), (1, 3), (2, 5))] for m in (own, true)
        ]
        common = math.prod(max(0.0, min(a[1], c[1]) - max(a[0], c[0])) for a, c in zip(*sides))
        whole = math.prod(a[1] - a[0] for a in sides[0]) + math.prod(a[1] - a[0] for a in sides[1]) - common
        around = sum((max(a[1], c[1]) - min(a[0], c[0])) ** 2 for a, c in zip(*sides))
        over += 1 - common / whole + float((own[:3] - true[:3]).square().sum()) / around
    exact = dict(score=score / 5, box=0.25 * box / 5, iou=0.5 * think / 5, overlap=0.5 * over / 5)
    assert {name: float(value) for name, value in parts.items()} == pytest.approx(exact, rel=1e-4)


@torch.no_grad()
def test_a_query_attends_to_cells_within_its_radius_only():
    near, far = head(BOTH[1]), head(BOTH[1], radius=100)
    q, keys = torch.randn(2, 5, 16), torch.randn(2, 288, 16)
    place = torch.tensor([[0, 23, 264, 287, 150], [3, 4, 5, 6, 7]])
    middles = FIELD.centers(keys)
    one = near.decoder(q, keys, middles, place, FIELD)
    moved = keys.clone()
    moved[0, 110] += 100  # row 4, column 14
    assert torch.equal(near.decoder(q, moved, middles, place, FIELD), one)
    whole = far.decoder(q, keys, middles, place, FIELD)
    assert not torch.allclose(far.decoder(q, moved, middles, place, FIELD)[0], whole[0])
    everything = head(BOTH[1], radius=None).decoder
    everything.own.out_proj.weight.zero_()  # else queries see each other there
    far.decoder.own.out_proj.weight.zero_()
    assert torch.allclose(
        everything(q, keys, middles, place, FIELD), far.decoder(q, keys, middles, place, FIELD), atol=1e-5
    )


def test_queries_stand_in_the_middle_of_their_cells_in_16_bit():
    """From the 128th cell on bfloat16 knows no halves."""
    wide = NECK | dict(low=(-75.0, -3.0), high=(75.0, 3.0))
    head: Any = HEADS.create(BOTH[1] | dict(neck=wide), dim=8)
    torch.nn.init.zeros_(head.parts["centre"][-1].weight)
    torch.nn.init.zeros_(head.parts["centre"][-1].bias)
    given = tokens()
    given.where.positions[..., 0] *= 12
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        at = head(given).code[..., :2]
    assert at.max() > 200
    assert torch.equal(at, at.floor() + 0.5)


@pytest.mark.parametrize("cfg", BOTH, ids=["CenterPoint", "TransFusion"])
def test_a_batch_without_boxes_trains(cfg):
    net = head(cfg).train()
    for samples in (truth(0, 0, 0), truth(0, 0, 4)):
        net.zero_grad()
        losses = net.loss(tokens(), net.targets(samples, torch.device("cpu")))
        assert losses["loss"].isfinite()
        losses["loss"].backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("cfg", BOTH, ids=["CenterPoint", "TransFusion"])
def test_it_learns_the_boxes_of_a_batch(cfg):
    torch.manual_seed(0)
    net, samples = head(cfg, dropout=0.0) if cfg["type"] == "TransFusion" else head(cfg), truth(7, 3, 2)
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    given, targets = tokens(pillars=200), net.targets(samples, torch.device("cpu"))
    for _ in range(60):
        optimizer.zero_grad()
        net.loss(given, targets)["loss"].backward()
        optimizer.step()
    for sample, answer in zip(samples, net.eval().predict(given, samples)):
        n = len(sample["classes"])
        best = answer.boxes[:n]
        away = (best[:, None, :2] - sample["boxes"][None, :, :2]).norm(dim=-1)
        assert (away.amin(0) < 0.5).all()
        assert sorted(answer.labels[:n].tolist()) == sorted(sample["classes"].tolist())
        assert (answer.scores.diff() <= 0).all()


def test_parameter_counts_are_the_published_ones():
    net = NECKS.create(dict(type="BirdsEyeNet"), dim=128)
    assert sum(p.numel() for p in net.parameters()) == 9_137_152
    assert (net.width, net.out.shape) == (512, (180, 180))
    whole = HEADS.create(dict(type="TransFusion", classes=10, neck=dict(type="BirdsEyeNet")), dim=128)
    assert sum(p.numel() for p in whole.parameters()) - 9_137_152 == 1_043_871


def test_pillars_are_at_their_cells_with_patches_on_request():
    given = tokens()
    for patches in (False, True):
        net = NECKS.create(NECK | dict(patches=patches), dim=8)
        kind = torch.arange(40).expand(2, -1) % 2
        mixed = TokenSet(given.features, given.where, kind)
        found = scatter_to_map(mixed, net.grid, patches)
        for b, n in itertools.product(range(2), range(40)):
            x, y = ((given.where.positions[b, n, :2] + torch.tensor([6.0, 3.0])) / 0.5).floor().long().tolist()
            there = (b == 0 or n < 20) and (patches or kind[b, n] == 0)
            assert torch.equal(found[b, :, y, x], given.features[b, n] * there)


def test_invalid_boxes_are_errors():
    (bad,) = truth(0, 3)
    bad["boxes"][1, 4] = -1
    with pytest.raises(
        DataError, match=r"boxes of a.bin: expected 3, one per class label, with finite positions and sizes above 0"
    ):
        objects_of([bad])
    with pytest.raises(DataError, match="label 2, but there are 2 classes"):
        objects_of([dict(boxes=torch.ones(1, 9), classes=torch.tensor([2]), path="a.bin")], 2)
    with pytest.raises(ValueError, match="24 x 12 cells cannot have stages of stride 8"):
        NECKS.create(NECK | dict(strides=(1, 8)), dim=8)
