"""Boxes with a class: a pyramid of maps, and YOLOv10's head without non-maximum suppression."""

import copy
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.answer import Answer
from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.heads.frame import original
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.heads.nms import suppressed
from ndformer.framework.heads.yolo import Branch, best
from ndformer.framework.losses.assignment import Objects, TaskAligned
from ndformer.framework.losses.detection import Anchors, DetectionLoss
from ndformer.framework.losses.labels import checked
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Count, Few, NonNegative, Positive, Share, SomeShare, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import TokenSet


@HEADS.register_module()
class Detector(Head):
    """Two branches see the same maps. In the first, which also trains the backbone, many anchors learn an object. In
    the second, which answers, a single one does: so an object is found once.

    A sample has its `boxes` (G, 4), x1 y1 x2 y2 in pixels of the input, and `labels` (G,). Where it has a `frame`
    (scale x, scale y, offset x, offset y) and the `size` (height, width) of the original image, what is `found` is in
    pixels of that: original = input * scale + offset.

    `patch`: pixels from one cell of the tokens' grid to the next. `nms`: the IoU above which the better of two boxes of
    a class stays alone; none by default. `one_to_one`: anchors that an object of the second branch considers, and of
    which it keeps one (newer programs: 7).
    """

    output_axes = dict(boxes=("batch", "places", "x1 y1 x2 y2"), logits=("batch", "places", "classes"))

    def __init__(
        self,
        dim: Width,
        classes: Classes,
        neck: dict[str, Any],
        patch: Positive = 16,
        most: Count = 100,
        least_score: Share = 0.001,
        nms: Share | None = None,
        one_to_one: Few = 1,
        least_side: NonNegative = 0.0,
        norm_eps: Positive = 1e-3,
        norm_momentum: SomeShare = 0.03,
    ) -> None:
        super().__init__()
        self.neck = NECKS.create(neck, dim=dim)
        self.classes, self.most, self.least_score, self.nms = classes, most, least_score, nms
        strides = [patch / scale for scale in self.neck.scales]
        self.many = Branch(self.neck.width, classes, strides, norm_eps, norm_momentum)
        self.one = copy.deepcopy(self.many)
        self.assign_many = TaskAligned(least_side=least_side)
        self.assign_one = TaskAligned(one_to_one, keep=None if one_to_one == 1 else 1, least_side=least_side)
        self.parts = DetectionLoss()

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Objects:
        count = max(len(sample["labels"]) for sample in data_samples)
        boxes = torch.zeros(len(data_samples), count, 4)
        labels = torch.zeros(len(data_samples), count, dtype=torch.int64)
        real = torch.zeros(len(data_samples), count, dtype=torch.bool)
        for i, sample in enumerate(data_samples):
            own = len(checked(sample["labels"], self.classes, sample))
            boxes[i, :own], labels[i, :own], real[i, :own] = sample["boxes"].reshape(-1, 4), sample["labels"], True
        return Objects(*(x.to(device, non_blocking=True) for x in (boxes, labels, real)))

    def loss(self, tokens: TokenSet, targets: Objects) -> dict[str, Tensor]:
        """The `loss`, and its parts of both branches to look at."""
        maps = self.neck(tokens)
        many, one = self.many(maps), self.one([x.detach() for x in maps])
        with without_autocast(many.boxes):
            told = self.parts(many, targets, self.assign_many)
            answer = self.parts(one, targets, self.assign_one)
        parts = {f"many_{k}": v for k, v in told.items()} | {f"one_{k}": v for k, v in answer.items()}
        return dict(loss=torch.stack(list(parts.values())).sum()) | {k: v.detach() for k, v in parts.items()}

    def forward(self, tokens: TokenSet) -> Anchors:
        """Boxes and scores at every cell of every map, of the branch that answers."""
        return self.one(self.neck(tokens))

    def exported(self, said: Anchors) -> dict[str, Tensor]:
        return dict(boxes=said.boxes, logits=said.logits)

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        anchors = self(tokens)
        found: list[Answer] = []
        answers = list(map(Tensor.cpu, best(anchors.logits, anchors.boxes, self.most)))
        finite(answers[0], data_samples)  # NaN would be among the best
        for sample, scores, labels, boxes in zip(data_samples, *answers):
            keep = scores >= self.least_score
            if self.nms is not None:
                keep &= ~suppressed(boxes, labels, self.nms)
            boxes = original(boxes[keep], sample)
            found.append(Boxes(sample=sample, boxes=boxes, labels=labels[keep], scores=scores[keep]))
        return found
