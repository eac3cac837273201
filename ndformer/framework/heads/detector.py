"""A 2-D object detector: a feature pyramid and YOLOv10's head, which needs no non-maximum suppression."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ndformer.framework.answer import Answer
from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.heads.frame import original
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.heads.nms import suppressed
from ndformer.framework.heads.yolo import Branch, best, inverse_order, padded_anchors
from ndformer.framework.losses.assignment import Objects, TaskAligned
from ndformer.framework.losses.detection import Anchors, detection_losses
from ndformer.framework.losses.labels import checked
from ndformer.framework.packing import by_grid
from ndformer.framework.registry import HEADS, NECKS
from ndformer.framework.registry.ranges import Classes, Count, NonNegative, Positive, Share, SomeShare, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import TokenSet


@HEADS.register_module()
class Detector(Head):
    """Two branches over the same feature maps, trained with one-to-many and one-to-one assignment.

    The one-to-many branch also trains the backbone. The one-to-one branch makes the predictions: each object is
    assigned a single anchor, so there are no duplicates to suppress.

    A sample has `boxes` (G, 4), x1 y1 x2 y2 in pixels of the input, and `labels` (G,). If it has a `frame`
    (scale x, scale y, offset x, offset y) and the `size` (height, width) of the original image, predicted boxes are in
    pixels of the original image: original = input * scale + offset.

    `patch` is the size of a token in pixels. predict() returns at most `most` boxes with a score of at least
    `least_score`. `nms` is the IoU threshold of an additional NMS; None means no NMS.
    """

    makes_maps = True
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
        least_side: NonNegative = 0.0,
        norm_eps: Positive = 1e-3,
        norm_momentum: SomeShare = 0.03,
    ) -> None:
        super().__init__()
        self.neck, self.patch = NECKS.create(neck, dim=dim), patch
        self.reads_cells = self.neck.cells is not None
        self.classes, self.max_boxes, self.min_score, self.nms = classes, most, least_score, nms
        strides = [patch / scale for scale in self.neck.scales]
        self.many = Branch(self.neck.width, classes, strides, norm_eps, norm_momentum)
        self.one = copy.deepcopy(self.many)
        self.train_assigner = TaskAligned(min_side=least_side)
        self.predict_assigner = TaskAligned(1, min_side=least_side)

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Objects:
        boxes = [sample["boxes"].reshape(-1, 4).float() for sample in data_samples]
        labels = [checked(sample["labels"], self.classes, sample).long() for sample in data_samples]
        real = [torch.ones_like(values, dtype=torch.bool) for values in labels]
        rows = (pad_sequence(values, batch_first=True) for values in (boxes, labels, real))
        return Objects(*(x.to(device, non_blocking=True) for x in rows))

    def loss(self, tokens: TokenSet, targets: Objects) -> dict[str, Tensor]:
        """Return the `loss` and its detached parts of both branches."""
        samples, maps = self._maps(tokens)
        many = _as_batch(self.many.each(maps), samples)
        single = _as_batch(self.one.each([[x.detach() for x in group] for group in maps]), samples)
        with without_autocast(many.boxes):
            many_losses = detection_losses(many, targets, self.train_assigner)
            one_losses = detection_losses(single, targets, self.predict_assigner)
        parts = {f"many_{k}": v for k, v in many_losses.items()} | {f"one_{k}": v for k, v in one_losses.items()}
        return dict(loss=torch.stack(list(parts.values())).sum()) | {k: v.detach() for k, v in parts.items()}

    def forward(self, tokens: TokenSet) -> Anchors:
        """Return boxes and scores of the one-to-one branch at every cell of every map."""
        samples, maps = self._maps(tokens)
        return _as_batch(self.one.each(maps), samples)

    def _maps(self, tokens: TokenSet) -> tuple[list[list[int]], list[list[Tensor]]]:
        """Return the maps of each group of samples of one size, and the numbers of its samples; none for one size."""
        if tokens.where.grids is None:
            return [], [self.neck(tokens)]
        samples, parts = zip(*by_grid(tokens))
        return list(samples), [self.neck(part) for part in parts]

    def exported(self, output: Anchors) -> dict[str, Tensor]:
        return dict(boxes=output.boxes, logits=output.logits)

    @torch.no_grad()
    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        samples, maps = self._maps(tokens)
        answers: list[Answer] = []
        best_boxes = [best(group.logits, group.boxes, self.max_boxes) for group in self.one.each(maps)]
        candidates = [row for group in best_boxes for row in zip(*map(Tensor.cpu, group))]
        order = inverse_order(samples) if samples else range(len(candidates))
        finite([candidates[i][0] for i in order], data_samples)  # topk sorts NaN first
        for sample, i in zip(data_samples, order):
            scores, labels, boxes = candidates[i]
            keep = scores >= self.min_score
            if self.nms is not None:
                keep &= ~suppressed(boxes, labels, self.nms)
            boxes = original(boxes[keep], sample)
            answers.append(Boxes(sample=sample, boxes=boxes, labels=labels[keep], scores=scores[keep]))
        return answers


def _as_batch(groups: list[Anchors], samples: list[list[int]]) -> Anchors:
    return padded_anchors(groups, samples) if samples else groups[0]
